// The router under a path of an app of one's own, beside other routes. By `app.mount`, and not `app.route`, which takes over the routes but
// neither our 404 and 405 as JSON nor our errors. Middleware of the app's own goes before both.
import { Hono } from "hono";
import { createRouter } from "prefill-router";

export function appWith(prefill: string, decode: string): Hono {
  const pool = { engine: "sglang", prefill: [{ url: prefill }], decode: [{ url: decode }] };
  const router = createRouter({ config: { models: [{ id: "sg", pools: [pool] }] } });

  const app = new Hono();
  app.get("/", (c) => c.text("somebody's own page"));
  app.mount("/llm", router.fetch);
  return app;
}
