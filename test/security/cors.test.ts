import { describe, expect, test } from "bun:test";
import { EngineHouse, routerOver } from "../fleet/house.ts";

const EVIL = "https://evil.example";
const APP = "https://app.example";
const PATHS = [
  ["POST", "/v1/chat/completions"],
  ["POST", "/v1/messages"],
  ["POST", "/v1/embeddings"],
  ["GET", "/v1/models"],
  ["GET", "/health"],
  ["GET", "/ready"],
  ["GET", "/metrics"],
  ["GET", "/openapi.json"],
  ["GET", "/"],
  ["GET", "/nowhere"],
  ["GET", "/workers"],
  ["POST", "/workers"],
  ["GET", "/dashboard/events"],
] as const;
const ADMIN_ONLY = ["/workers", "/dashboard/events"];

function routerFor(origins: string[] | undefined) {
  const house = new EngineHouse();
  house.engines.set("http://w:1", () =>
    Response.json({ choices: [{ message: { content: "hi" }, finish_reason: "stop" }] }),
  );
  const cors = origins === undefined ? {} : { cors: { origins } };
  return routerOver(house, { models: [{ id: "m", pools: [{ engine: "openai", workers: ["http://w:1"] }] }], ...cors })
    .router;
}

async function ask(router: ReturnType<typeof routerFor>, method: string, path: string, origin: string, body?: string) {
  const headers = { origin, "content-type": "application/json", "access-control-request-method": "POST" };
  const init: RequestInit = { method, headers };
  if (method === "POST") init.body = body ?? '{"model":"m","messages":[{"role":"user","content":"x"}]}';
  const response = await router.fetch(new Request(`http://router${path}`, init));
  await response.body?.cancel();
  return response;
}

function corsHeaders(response: Response): string[] {
  return [...response.headers.keys()].filter((name) => name.startsWith("access-control-"));
}

describe("CORS", () => {
  test("is off by default, on every route and method", async () => {
    const router = routerFor(undefined);
    for (const [method, path] of PATHS) {
      for (const how of [method, "OPTIONS"]) expect(corsHeaders(await ask(router, how, path, EVIL))).toEqual([]);
    }
  });

  test("with one origin allowed the others get nothing, and that one exactly itself, with vary and without credentials", async () => {
    const router = routerFor([APP]);
    for (const [method, path] of PATHS) {
      for (const how of [method, "OPTIONS"]) {
        expect((await ask(router, how, path, EVIL)).headers.get("access-control-allow-origin")).toBeNull();
        const allowed = await ask(router, how, path, APP);
        const admin = ADMIN_ONLY.includes(path);
        expect({ path, how, origin: allowed.headers.get("access-control-allow-origin") }).toEqual({
          path,
          how,
          origin: admin ? null : APP,
        });
        expect(allowed.headers.get("access-control-allow-credentials")).toBeNull();
        if (!admin) expect(allowed.headers.get("vary")?.toLowerCase()).toContain("origin");
      }
    }
  });

  test("errors carry the same headers as answers, so that a page can read why", async () => {
    const router = routerFor([APP]);
    const ok = await ask(router, "POST", "/v1/chat/completions", APP);
    expect(ok.status).toBe(200);
    for (const [body, status] of [
      ["{", 400],
      ['{"model":"other","messages":[]}', 404],
      ['{"model":"m","messages":7}', 400],
    ] as const) {
      const refused = await ask(router, "POST", "/v1/chat/completions", APP, body);
      expect(refused.status).toBe(status);
      expect(corsHeaders(refused)).toEqual(corsHeaders(ok));
      expect(refused.headers.get("access-control-allow-origin")).toBe(APP);
    }
  });

  test("a page may read the headers of answers and refusals: which way, which limit, when again", async () => {
    const house = new EngineHouse();
    const answered = Response.json({ choices: [{ message: { content: "hi" }, finish_reason: "stop" }] });
    house.engines.set("http://p:1", () => answered.clone()).set("http://d:1", () => answered.clone());
    const pool = { engine: "sglang", prefill: [{ url: "http://p:1", bootstrapPort: 1 }], decode: ["http://d:1"] };
    const clientKeys = [{ name: "k", keyEnv: "K", requestsPerMinute: 1, tokensPerMinute: 1_000 }];
    const config = { models: [{ id: "m", pools: [pool] }], cors: { origins: [APP] }, auth: { clientKeys } };
    const { router } = routerOver(house, config, { env: { K: "key" } });
    const seen = new Set<string>();
    for (const status of [200, 429]) {
      const headers = { origin: APP, "content-type": "application/json", authorization: "Bearer key" };
      const body = '{"model":"m","messages":[{"role":"user","content":"x"}]}';
      const response = await router.fetch(
        new Request("http://router/v1/chat/completions", { method: "POST", headers, body }),
      );
      expect(response.status).toBe(status);
      const exposed = response.headers.get("access-control-expose-headers")!.split(/, ?/);
      for (const name of response.headers.keys()) {
        if (!/^x-|^retry-after$/.test(name)) continue;
        seen.add(name);
        expect(exposed).toContain(name);
      }
    }
    expect([...seen]).toEqual(expect.arrayContaining(["retry-after", "x-ratelimit-reset-tokens", "x-router-prefill"]));
  });

  test("a wildcard is a wildcard, never the caller's origin", async () => {
    const response = await ask(routerFor(["*"]), "POST", "/v1/chat/completions", EVIL);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-allow-credentials")).toBeNull();
    expect(corsHeaders(await ask(routerFor(["*"]), "GET", "/workers", EVIL))).toEqual([]);
  });
});
