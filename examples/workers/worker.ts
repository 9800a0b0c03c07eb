// A Worker of one's own: the router under a path of a Hono app, made when the first request brings the environment.
import { Hono } from "hono";
import { createRouter, type PrefillRouter } from "prefill-router/workers";

interface Env {
  PREFILL: string;
  DECODE: string;
}

let router: PrefillRouter | undefined;

const app = new Hono<{ Bindings: Env }>();
app.mount("/llm", function llm(request, env: Env, context) {
  const pool = { engine: "sglang", prefill: [{ url: env.PREFILL }], decode: [{ url: env.DECODE }] };
  router ??= createRouter({ config: { models: [{ id: "sg", pools: [pool] }] } });
  return router.fetch(request, env, context);
});

export default app;
