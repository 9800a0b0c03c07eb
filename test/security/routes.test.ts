import { describe, expect, test } from "bun:test";
import type { PrefillRouter } from "../../src/create-router.ts";
import { EngineHouse, routerOver } from "../fleet/house.ts";

/** What engines and other routers offer, and a router that forwards everything would open. */
const FOREIGN = [
  "/flush_cache",
  "/abort_request",
  "/reset_prefix_cache",
  "/update_weights",
  "/update_weights_from_disk",
  "/collective_rpc",
  "/sleep",
  "/wake_up",
  "/pause",
  "/invocations",
  "/start_profile",
  "/add_worker",
  "/list_workers",
  "/get_server_info",
  "/server_info",
  "/load_lora_adapter",
  "/v1/load_lora_adapter",
  "/v1/files",
  "/v1/batches",
  "/v1/audio/transcriptions",
  "/v1/unknown",
  "/v1/../flush_cache",
  "/V1/chat/completions",
  "/v1/chat/completions/x",
  "/v1//chat/completions",
  "/.env",
];
const KEYS = { CLIENT: "client-key-1", ADMIN: "admin-key-1" };
const OFFERED = [{}, { authorization: `Bearer ${KEYS.CLIENT}` }, { authorization: `Bearer ${KEYS.ADMIN}` }];

function fleet(auth: object) {
  const house = new EngineHouse();
  for (const url of ["http://p:1", "http://d:1", "http://w:1"])
    house.engines.set(url, () => Response.json({ pwned: true }));
  const pool = { engine: "sglang", prefill: ["http://p:1"], decode: ["http://d:1"], workers: ["http://w:1"] };
  const { router } = routerOver(house, { models: [{ id: "m", pools: [pool] }], auth }, { env: KEYS });
  return { house, router };
}

async function ask(router: PrefillRouter, method: string, path: string, headers: Record<string, string>) {
  const init: RequestInit = { method, headers: { "content-type": "application/json", ...headers } };
  if (method === "POST") init.body = '{"model":"m","messages":[]}';
  const response = await router.fetch(new Request(`http://router${path}`, init));
  return { status: response.status, text: await response.text(), headers: response.headers };
}

describe("what is not listed is 404", () => {
  test("on every method and with every key, as a JSON error, and no worker is contacted", async () => {
    const { house, router } = fleet({ clientKeys: [{ name: "c", keyEnv: "CLIENT" }], adminKeyEnv: "ADMIN" });
    for (const path of FOREIGN) {
      for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]) {
        for (const headers of OFFERED) {
          const { status, text } = await ask(router, method, path, headers as Record<string, string>);
          expect({ path, method, status }).toEqual({ path, method, status: 404 });
          if (method !== "HEAD") expect(JSON.parse(text).error.code).toBe("not_found");
        }
      }
    }
    for (const path of ["/assets/../package.json", "/assets/%2e%2e%2fpackage.json", "/assets/constructor"]) {
      expect((await ask(router, "GET", path, {})).status).toBe(404);
    }
    expect(house.seen).toHaveLength(0);
  });

  test("admin routes without a configured key do not exist; with one they ask before anything else is looked at", async () => {
    const open = fleet({});
    const shut = fleet({ adminKeyEnv: "ADMIN" });
    for (const path of ["/workers", "/workers/prefill-1", "/workers/nobody", "/workers/prefill-1/drain"]) {
      for (const method of ["GET", "POST", "DELETE", "PUT"]) {
        expect((await ask(open.router, method, path, {})).status).toBe(404);
        // Same answer whether the worker or the method exists or not.
        expect((await ask(shut.router, method, path, {})).status).toBe(401);
        expect((await ask(shut.router, method, path, { authorization: "Bearer guess" })).status).toBe(403);
      }
    }
    expect((await ask(shut.router, "GET", "/dashboard/events", {})).status).toBe(401);
    expect(shut.router.control.list().workers).toHaveLength(3);
    expect([...open.house.seen, ...shut.house.seen]).toHaveLength(0);
  });

  test("public routes show neither addresses nor keys", async () => {
    const { router } = fleet({ clientKeys: [{ name: "c", keyEnv: "CLIENT" }], adminKeyEnv: "ADMIN" });
    for (const path of ["/health", "/ready", "/metrics", "/openapi.json", "/docs", "/"]) {
      const { status, text, headers } = await ask(router, "GET", path, {});
      expect({ path, status }).toEqual({ path, status: 200 });
      const shown = text + JSON.stringify([...headers]);
      for (const hidden of ["http://p:1", "http://d:1", "http://w:1", KEYS.CLIENT, KEYS.ADMIN]) {
        expect(shown).not.toContain(hidden);
      }
    }
  });
});
