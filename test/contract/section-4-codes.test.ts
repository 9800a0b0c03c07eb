import { describe, expect, test } from "bun:test";
import { type HandRouter, handRouter, nixlAnswer, PREFILLED, settled } from "../attempt/hand-made.ts";
import { requestBody } from "../faults/streams.ts";
import { DONE, finish, ROLE, say } from "../relay/hand-made.ts";
import { post, TWO_MODELS, told } from "./lab.ts";

/**
 * Contract section 4, the table of codes: each code is provoked once as a stream and once buffered, on chat and on messages, and what
 * comes back is checked member by member.
 */
interface Provoked {
  code: string;
  status: number;
  type: string;
  stage: string;
  retryAfter?: boolean;
  pool?: object;
  config?: object;
  /** Plays the engines; the request is out. */
  play?: (lab: HandRouter) => Promise<void> | void;
  /** The request, where it is not an ordinary one. */
  body?: string;
  headers?: Record<string, string>;
  before?: (lab: HandRouter) => Promise<void> | void;
}

const NO_RETRY = { retries: { maxRetries: 0 } };
const VLLM = { engine: "vllm" };
const KEYS = { models: TWO_MODELS, auth: { clientKeys: [{ name: "team", keyEnv: "TEAM", models: ["other"] }] } };

const PROVOKED: readonly Provoked[] = [
  { code: "invalid_request", status: 400, type: "invalid_request_error", stage: "router", body: '{"model":"m"}' },
  { code: "unauthorized", status: 401, type: "authentication_error", stage: "router", config: KEYS },
  {
    code: "forbidden",
    status: 403,
    type: "permission_error",
    stage: "router",
    config: KEYS,
    headers: { authorization: "Bearer team-key" },
  },
  {
    code: "model_not_found",
    status: 404,
    type: "not_found_error",
    stage: "router",
    body: '{"model":"unknown","messages":[]}',
  },
  {
    code: "body_too_large",
    status: 413,
    type: "invalid_request_error",
    stage: "router",
    config: { limits: { bodyBytes: 10 } },
  },
  {
    code: "unsupported_media_type",
    status: 415,
    type: "invalid_request_error",
    stage: "router",
    headers: { "content-type": "text/plain" },
  },
  {
    code: "rate_limited",
    status: 429,
    type: "rate_limit_error",
    stage: "router",
    retryAfter: true,
    config: { auth: { clientKeys: [{ name: "team", keyEnv: "TEAM", requestsPerMinute: 1 }] } },
    headers: { authorization: "Bearer team-key" },
    before: (lab) => {
      lab.ask({}, { headers: { "content-type": "application/json", authorization: "Bearer team-key" } });
      return settled();
    },
  },
  {
    code: "router_overloaded",
    status: 503,
    type: "service_unavailable",
    stage: "router",
    retryAfter: true,
    config: { limits: { concurrency: 1 } },
    before: (lab) => {
      lab.ask();
      return settled();
    },
  },
  {
    code: "queue_timeout",
    status: 503,
    type: "service_unavailable",
    stage: "router",
    retryAfter: true,
    config: { limits: { concurrency: 1, queue: 1, queueMs: 50 } },
    before: (lab) => {
      lab.ask();
      return settled();
    },
    play: ({ clock }) => clock.advance(50),
  },
  {
    code: "shutting_down",
    status: 503,
    type: "service_unavailable",
    stage: "router",
    retryAfter: true,
    before: (lab) => {
      void lab.router.shutdown(10_000);
    },
  },
  {
    code: "no_prefill_workers",
    status: 503,
    type: "service_unavailable",
    stage: "prefill",
    retryAfter: true,
    before: ({ worker }) => {
      worker("p1").draining = true;
      worker("p2").draining = true;
    },
  },
  {
    code: "no_decode_workers",
    status: 503,
    type: "service_unavailable",
    stage: "decode",
    retryAfter: true,
    before: ({ worker }) => {
      worker("d1").draining = true;
      worker("d2").draining = true;
    },
  },
  {
    code: "prefill_unreachable",
    status: 502,
    type: "server_error",
    stage: "prefill",
    pool: VLLM,
    config: NO_RETRY,
    play: ({ at }) => at("p1").refuse(),
  },
  {
    code: "decode_unreachable",
    status: 502,
    type: "server_error",
    stage: "decode",
    config: NO_RETRY,
    play: ({ at }) => at("d1").reset(),
  },
  {
    code: "prefill_timeout",
    status: 504,
    type: "timeout_error",
    stage: "prefill",
    pool: VLLM,
    config: { timeouts: { prefillMs: 100 } },
    play: ({ clock }) => clock.advance(100),
  },
  {
    code: "decode_timeout",
    status: 504,
    type: "timeout_error",
    stage: "decode",
    config: { timeouts: { firstTokenMs: 100, totalMs: 100 } },
    play: async ({ at, clock }) => {
      at("p1").json(PREFILLED);
      await settled();
      await clock.advance(100);
    },
  },
  {
    code: "prefill_failed",
    status: 418,
    type: "teapot",
    stage: "prefill",
    pool: VLLM,
    play: ({ at }) => at("p1").json({ error: { message: "short and stout", type: "teapot", code: "handle" } }, 418),
  },
  {
    code: "decode_failed",
    status: 422,
    type: "spout",
    stage: "decode",
    play: ({ at }) => at("d1").json({ error: { message: "here is my spout", type: "spout", code: "handle" } }, 422),
  },
  {
    code: "invalid_handoff",
    status: 502,
    type: "server_error",
    stage: "handoff",
    pool: VLLM,
    config: NO_RETRY,
    play: ({ at }) => at("p1").whole(nixlAnswer("null")),
  },
];

describe("every code has its status, type and stage, in a JSON error and in x-router-error-code", () => {
  for (const api of ["chat", "messages"] as const) {
    for (const stream of [true, false]) {
      test.each(PROVOKED.map((provoked) => [provoked.code, provoked] as const))(
        `%s (${api}, ${stream ? "streamed" : "buffered"})`,
        async (_code, provoked) => {
          const lab = handRouter(provoked.pool ?? { engine: "sglang" }, provoked.config, { TEAM: "team-key" });
          await provoked.before?.(lab);
          const seen = lab.transport.requests.length;
          const asking = post(lab.router, api, provoked.body ?? requestBody(api, stream), provoked.headers);
          await settled();
          await provoked.play?.(lab);
          const answer = await told(asking);
          expect(answer).toMatchObject({
            status: provoked.status,
            type: "application/json",
            code: provoked.code,
            envelope: api === "messages" ? "error" : undefined,
            members: ["message", "type", "code", "param", "stage"],
            error: { type: provoked.type, stage: provoked.stage },
          });
          if (provoked.type.includes("_")) expect(answer.error.code).toBe(provoked.code);
          expect(String(answer.error.message).length).toBeGreaterThan(0);
          expect(answer.headers.has("retry-after")).toBe(provoked.retryAfter === true);
          expect(answer.headers.get("x-request-id")).toBeTruthy();
          if (provoked.play === undefined) expect(lab.transport.requests.length).toBe(seen);
        },
      );
    }
  }

  test("event_too_large before the commit is 502, after it a frame", async () => {
    for (const committed of [false, true]) {
      const { at, ask } = handRouter({ engine: "sglang" }, { limits: { eventBytes: 100 }, ...NO_RETRY });
      const { response } = ask();
      await settled();
      const decode = at("d1").head();
      if (committed) decode.push(say("hi"));
      decode.push(`data: {"x":"${"y".repeat(200)}`);
      if (committed) {
        expect(await (await response).text()).toEndWith(
          `"type":"server_error","code":"event_too_large","param":null,"stage":"decode"}}\n\n${DONE}`,
        );
      } else expect(await told(response)).toMatchObject({ status: 502, code: "event_too_large" });
      expect(at("d1").closed).toBe(true);
      expect(at("p1").closed).toBe(true);
    }
  });

  test("method_not_allowed and not_found are in the shape of all errors", async () => {
    const { router } = handRouter();
    const wrong = await told(Promise.resolve(router.fetch(new Request("http://r/v1/completions", { method: "PUT" }))));
    expect(wrong).toMatchObject({ status: 405, code: "method_not_allowed", error: { type: "not_found_error" } });
    expect(wrong.headers.get("allow")).toBe("POST");
    const none = await told(Promise.resolve(router.fetch(new Request("http://r/v1/none"))));
    expect(none).toMatchObject({ status: 404, code: "not_found", error: { type: "not_found_error", param: null } });
  });

  test("a wrong method in /v1/messages has the envelope of its API too", async () => {
    const { router } = handRouter();
    const wrong = await told(Promise.resolve(router.fetch(new Request("http://r/v1/messages", { method: "PUT" }))));
    expect(wrong).toMatchObject({ status: 405, envelope: "error", code: "method_not_allowed" });
  });

  test("prefill_unreachable: refused, reset, and cut before its answer is whole", async () => {
    for (const how of ["refuse", "reset", "cut"] as const) {
      const { at, ask } = handRouter(VLLM, NO_RETRY);
      const { response } = ask({ stream: false });
      await settled();
      if (how === "cut") at("p1").head({ "content-type": "application/json" }).push('{"id":').cut();
      else at("p1")[how]();
      expect(await told(response)).toMatchObject({ status: 502, code: "prefill_unreachable" });
    }
  });

  test("decode_unreachable: refused, reset, and cut before an answer, role chunk or not", async () => {
    for (const how of ["refuse", "reset", "cut"] as const) {
      const { at, ask } = handRouter({ engine: "sglang" }, NO_RETRY);
      const { response } = ask();
      await settled();
      if (how === "cut") at("d1").head().push(ROLE).cut();
      else at("d1")[how]();
      expect(await told(response)).toMatchObject({ status: 502, code: "decode_unreachable" });
    }
  });

  test("an answer without any error has no x-router-error-code", async () => {
    const { at, ask } = handRouter();
    const { response } = ask();
    await settled();
    at("p1").json(PREFILLED);
    at("d1").head().push(ROLE, say("a"), finish(), DONE).end();
    expect((await response).headers.has("x-router-error-code")).toBe(false);
  });
});
