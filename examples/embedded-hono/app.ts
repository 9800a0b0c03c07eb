// The router's routes in an app of one's own, beside others: `app.route` shares the app's middleware, `app.mount` keeps them apart.
import { Hono } from "hono";
import { createRouter } from "prefill-router";

export function appWith(prefill: string, decode: string): Hono {
  const pool = { engine: "sglang", prefill: [{ url: prefill }], decode: [{ url: decode }] };
  const router = createRouter({ config: { models: [{ id: "sg", pools: [pool] }] } });

  const app = new Hono();
  app.get("/", (c) => c.text("somebody's own page"));
  app.route("/llm", router.app);
  app.mount("/mounted", router.fetch);
  return app;
}
