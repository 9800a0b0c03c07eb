import { expect } from "bun:test";
import { json, whole } from "../answers.ts";
import { Exchange } from "../client.ts";
import type { Scenario } from "../scenario.ts";

const CHAT = "/v1/chat/completions";

/** Sends raw text and expects an error of the router's own. */
function refuses(
  name: string,
  ask: { path?: string; method?: string; headers?: Record<string, string>; body?: string; raw?: string },
  status: number,
  code: string,
): Scenario {
  return {
    name,
    async run({ plain }) {
      const answer = await new Exchange(plain, { path: CHAT, ...ask }).done();
      expect([answer.status, answer.error.code, answer.error.stage]).toEqual([status, code, "router"]);
      expect(answer.headers.get("content-type")).toBe("application/json");
      expect(answer.headers.get("x-router-error-code")).toBe(code);
      expect(answer.headers.get("x-request-id")).toBeString();
      expect(answer.ending).toBe("clean");
    },
  };
}

/** What is refused at the door, and the routes that look at no engine. */
export const shapes: Scenario[] = [
  refuses("a body that is no JSON", { body: "{nope" }, 400, "invalid_request"),
  refuses("a field of the wrong kind", { body: '{"model":"sg","messages":[],"stream":"yes"}' }, 400, "invalid_request"),
  refuses("a model nobody has", { body: '{"model":"nope","messages":[]}' }, 404, "model_not_found"),
  refuses("a route nobody has", { path: "/v1/nope", body: "{}" }, 404, "not_found"),
  refuses("a method a route does not take", { method: "GET" }, 405, "method_not_allowed"),
  refuses(
    "a body that is not said to be JSON",
    { body: "{}", headers: { "content-type": "text/plain" } },
    415,
    "unsupported_media_type",
  ),
  refuses("a compressed body", { body: "{}", headers: { "content-encoding": "gzip" } }, 415, "unsupported_media_type"),
  ...["x/metrics?", "x/metrics#", "x\\metrics?", "u@x/metrics?", "x /metrics?", "x, y/metrics?"].map(
    (host): Scenario => ({
      name: `a Host that chooses another route (${host}) does not`,
      // It refuses these itself: a 500, before any Worker hears of them.
      except: ["workerd"],
      async run({ plain }) {
        const answer = await new Exchange(plain, { method: "GET", path: "/nothing", headers: { host } }).done();
        expect([400, 404]).toContain(answer.status);
        const posted = await new Exchange(plain, {
          path: "/nothing",
          headers: { host: host.replace("metrics", "generate") },
        }).done();
        expect([400, 404]).toContain(posted.status);
      },
    }),
  ),
  ...["x", "x:8000", "[::1]:8000", "xn--bcher-kva.example"].map(
    (host): Scenario => ({
      name: `a Host that is one (${host}) is served`,
      async run({ get }) {
        expect((await get("/health", undefined, { host })).status).toBe(200);
      },
    }),
  ),
  refuses("an encoded path that tries to climb", { path: "/v1/..%2f..%2fworkers", body: "{}" }, 404, "not_found"),
  {
    name: "a body over the limit is 413, with a length and without",
    async run({ plain }) {
      const body = `{"model":"sg","messages":[],"pad":"${"x".repeat(300_000)}"}`;
      const long = await new Exchange(plain, { body }).done();
      expect([long.status, long.error.code]).toEqual([413, "body_too_large"]);
      const raw = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
      const chunked = await new Exchange(plain, { headers: { "transfer-encoding": "chunked" }, raw }).done();
      expect([chunked.status, chunked.error.code]).toEqual([413, "body_too_large"]);
    },
  },
  {
    name: "/v1/messages refuses in Anthropic's shape",
    async run({ plain }) {
      const answer = await new Exchange(plain, { path: "/v1/messages", body: "{" }).done();
      const { type, error } = answer.json as { type: string; error: { code: string } };
      expect([answer.status, type, error.code]).toEqual([400, "error", "invalid_request"]);
    },
  },
  {
    name: "/health, /ready, /metrics and /v1/models answer",
    async run({ get }) {
      expect((await get("/health")).text).toBe('{"status":"ok"}');
      expect((await get("/ready")).status).toBe(200);
      expect((await get("/metrics")).text).toContain("# TYPE prefill_router_");
      const models = (await get("/v1/models")).json as { data: { id: string }[] };
      expect(models.data.map(({ id }) => id)).toContain("tr");
    },
  },
  {
    name: "admin routes are not there without an admin key",
    async run({ get }) {
      expect((await get("/workers")).status).toBe(404);
    },
  },
  {
    name: "the path of the request decides, not the host or a header that claims another",
    async run({ ask }) {
      const headers = { host: "127.0.0.1:9", "x-forwarded-host": "127.0.0.1:9", "x-original-url": "/workers" };
      const options = { stream: false, path: "/v1/embeddings", prompt: { input: '"$TAG"' }, headers };
      const { answer, seen } = ask("agg", { agg: json(whole("x", "stop")) }, options);
      await answer.done();
      expect([answer.status, seen("agg").length]).toEqual([200, 1]);
    },
  },
];
