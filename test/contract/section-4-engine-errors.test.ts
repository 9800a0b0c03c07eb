import { describe, expect, test } from "bun:test";
import { handRouter, nixlAnswer, PREFILLED, settled } from "../attempt/hand-made.ts";
import { abortBody, abortEvent, apis, errorEvent, errorInside, requestBody } from "../faults/streams.ts";
import { DONE, event, finish, ROLE, say } from "../relay/hand-made.ts";
import { post, told } from "./lab.ts";

/** Contract section 4, what becomes of an engine's own error, in bodies and in frames. */

const ONCE = { retries: { maxRetries: 0 } };
const SGLANG = { engine: "sglang" };

/** Decode's first words on an sglang pair; prefill has answered well. */
async function decodeSays(chunks: string[], stream = true, config: object = ONCE) {
  const lab = handRouter(SGLANG, config, { KEY: "sk-worker-0123" });
  const { response } = lab.ask({ stream });
  await settled();
  lab.at("p1").json(PREFILLED);
  const decode = lab.at("d1").head(stream ? {} : { "content-type": "application/json" });
  decode.push(...chunks).end();
  return { lab, response };
}

describe("an engine's own 4xx/5xx keeps its status, message, type, code and Retry-After/x-ratelimit-*", () => {
  const headers = {
    "retry-after": "Wed, 21 Oct 2099 07:28:00 GMT",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset": "9s",
    "x-engine-inner": "secret",
    "set-cookie": "a=b",
    server: "uvicorn",
  };
  for (const leg of ["prefill", "decode"] as const) {
    for (const status of [400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529]) {
      test(`${leg}: ${status}`, async () => {
        for (const stream of [true, false]) {
          const { at, ask } = handRouter(SGLANG, ONCE);
          const { response } = ask({ stream });
          await settled();
          const error = { message: `said ${status}`, type: "own_type", code: "own_code", param: "seed" };
          at(leg === "prefill" ? "p1" : "d1").json({ error }, status, headers);
          const answer = await told(response);
          expect(answer).toMatchObject({ status, code: `${leg}_failed`, error: { ...error, stage: leg } });
          expect(answer.headers.get("retry-after")).toBe(headers["retry-after"]);
          expect(answer.headers.get("x-ratelimit-remaining-requests")).toBe("0");
          expect(answer.headers.get("x-ratelimit-reset")).toBe("9s");
          for (const name of ["x-engine-inner", "set-cookie", "server"]) expect(answer.headers.has(name)).toBe(false);
        }
      });
    }
  }

  test("a status below 400 that is no success (a redirect) is 502, and its target is not asked", async () => {
    for (const leg of ["p1", "d1"]) {
      const { at, ask, sent } = handRouter(SGLANG, ONCE);
      const { response } = ask();
      await settled();
      // What stands in it is no error's words, and no error's status.
      at(leg).whole('{"error":{"message":"moved","code":404}}', 307, { location: "http://canary:1/" });
      const { status, error } = await told(response);
      expect([status, error.message]).toEqual([502, expect.stringContaining("answered with status 307")]);
      expect(sent()).toEqual(["p1", "d1"]);
    }
  });

  const shapes: [body: string, type: string, message: string][] = [
    ['{"detail":"x1"}', "application/json", "x1"],
    ['{"detail":[{"loc":["body","n"],"msg":"x2"}]}', "application/json", "x2"],
    ['{"object":"error","message":"x3","type":"BadRequestError","param":null,"code":400}', "application/json", "x3"],
    ['{"error":"x4"}', "application/json", "x4"],
    ["x5", "text/plain", "x5"],
    ["<html><body>x6</body></html>", "text/html", "x6"],
    ["", "text/plain", ""],
    [`x8${"z".repeat(5_000_000)}`, "text/plain", "x8"],
    [`{"error":{"message":"x9","type":"${"t".repeat(100_000)}"}}`, "application/json", "x9"],
  ];
  test.each(shapes.map(([body, ...rest]) => [body.slice(0, 40), body, ...rest] as const))(
    "whatever its shape: %s",
    async (_name, body, type, message) => {
      for (const leg of ["p1", "d1"]) {
        const { at, ask } = handRouter(SGLANG, ONCE);
        const { response } = ask();
        await settled();
        at(leg).whole(body, 500, { "content-type": type });
        const answer = await told(response);
        expect(answer).toMatchObject({ status: 500, type: "application/json" });
        const said = String(answer.error.message);
        expect(said).toContain(message);
        expect(said.length).toBeGreaterThan(0);
        expect(new TextEncoder().encode(said).length).toBeLessThanOrEqual(8192);
        expect(JSON.stringify(answer.error).length).toBeLessThan(65_536);
      }
    },
  );
});

describe("an error event or an abort before commit takes its integer code or status_code 400–599 as status, else 502", () => {
  const events: [what: string, events: string[], status: number][] = [
    ["a code", [event({ error: { message: "x", code: 429 } })], 429],
    ["a code after the role chunk", [ROLE, event({ error: { message: "x", code: 503 } }), DONE], 503],
    ["a status_code", [event({ error: { message: "x", status_code: 418 } })], 418],
    ["a code that is text", [event({ error: { message: "x", code: "429" } })], 502],
    ["a code out of range", [event({ error: { message: "x", code: 200 } })], 502],
    ["a code beyond the range", [event({ error: { message: "x", code: 600 } })], 502],
    ["a code that is no integer", [event({ error: { message: "x", code: 429.5 } })], 502],
    ["no code", [event({ error: { message: "x" } })], 502],
    ["a flat error", [event({ object: "error", message: "x", code: 422 })], 422],
    ["an abort without words", [finish("abort")], 502],
    [
      "an abort of SGLang's",
      [
        event({
          choices: [{ index: 0, delta: {}, finish_reason: { type: "abort", message: "x", status_code: 413 } }],
        }),
      ],
      413,
    ],
  ];
  test.each(events)("%s", async (_what, chunks, status) => {
    const { response } = await decodeSays(chunks);
    expect(await told(response)).toMatchObject({ status, type: "application/json", code: "decode_failed" });
  });

  const bodies: [what: string, body: string, status: number][] = [
    ["a code", '{"error":{"message":"x","code":429}}', 429],
    ["text", '{"error":{"message":"x","code":"429"}}', 502],
    ["flat", '{"object":"error","message":"x","code":400}', 400],
    ["abort", '{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"abort"}]}', 502],
    [
      "abort with a status",
      '{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":{"type":"abort","message":"x","status_code":503}}]}',
      503,
    ],
  ];
  test.each(bodies)("buffered: %s", async (_what, body, status) => {
    const { response } = await decodeSays([body], false);
    expect(await told(response)).toMatchObject({ status, code: "decode_failed" });
  });

  test("prefill's, inside a 200", async () => {
    for (const engine of ["sglang", "vllm", "trtllm"]) {
      const { at, ask } = handRouter({ engine }, ONCE);
      const { response } = ask();
      await settled();
      at("p1").json({ error: { message: "x", code: 507 } });
      expect(await told(response)).toMatchObject({ status: 507, code: "prefill_failed", error: { stage: "prefill" } });
    }
  });

  test("of every API", async () => {
    for (const api of apis) {
      for (const [chunk, status] of [
        [errorEvent(api).toString(), api === "messages" ? 502 : 529],
        [abortEvent(api).toString(), api === "generate" ? 500 : 502],
      ] as const) {
        const { router, at } = handRouter(SGLANG, ONCE);
        const response = post(router, api, requestBody(api, true));
        await settled();
        at("d1").head().push(chunk).end();
        expect({ api, ...(await told(response)) }).toMatchObject({ api, status, code: "decode_failed" });
      }
      for (const [body, status] of [
        [errorInside, 529],
        [abortBody(api), api === "generate" ? 500 : 502],
      ] as const) {
        const { router, at } = handRouter(SGLANG, ONCE);
        const response = post(router, api, requestBody(api, false));
        await settled();
        at("d1").whole(body);
        expect({ api, ...(await told(response)) }).toMatchObject({ api, status, code: "decode_failed" });
      }
    }
  });
});

describe("configured keys are masked wherever an engine's message contains them", () => {
  const KEY = "sk-worker-0123";
  const KEYED = {
    ...ONCE,
    models: [
      {
        id: "m",
        pools: [
          {
            name: "p",
            engine: "sglang",
            prefill: [{ name: "p1", url: "http://p1:1", apiKeyEnv: "KEY" }],
            decode: [{ name: "d1", url: "http://d1:1" }],
          },
        ],
      },
    ],
  };

  test("in a body, on either leg", async () => {
    for (const leg of ["p1", "d1"]) {
      const { at, ask } = handRouter(SGLANG, KEYED, { KEY });
      const { response } = ask();
      await settled();
      at(leg).json({ error: { message: `bad header authorization: Bearer ${KEY}` } }, 401);
      const text = await (await response).text();
      expect(text).not.toContain(KEY);
      expect(text).toContain("***");
    }
  });

  test("in a frame, an engine's own too", async () => {
    for (const chunk of [
      event({ error: { message: `echo ${KEY}`, code: 500 } }),
      event({ object: "error", message: `echo ${KEY}` }),
    ]) {
      const { lab, response } = await decodeSays([say("hi"), chunk], true, KEYED);
      const text = await (await response).text();
      expect(text).not.toContain(KEY);
      expect(text).toContain("***");
      expect(lab.router.telemetry.metrics.render()).not.toContain(KEY);
    }
  });
});

describe("the message is always a non-empty string, at most 8 KiB", () => {
  test.each(["", " ", "\n", "\ud800", "ä".repeat(9_000), "😀".repeat(5_000)])("engine message %#", async (message) => {
    const { at, ask } = handRouter(SGLANG, ONCE);
    const { response } = ask();
    await settled();
    at("d1").json({ error: { message } }, 500);
    const said = String((await told(response)).error.message);
    expect(said.trim().length).toBeGreaterThan(0);
    expect(new TextEncoder().encode(said).length).toBeLessThanOrEqual(8192);
  });

  test("in a frame too", async () => {
    const { response } = await decodeSays([say("hi"), event({ object: "error", message: "ä".repeat(9_000) })]);
    const frame = /data: (\{"error".*)/.exec(await (await response).text())![1]!;
    const { error } = JSON.parse(frame) as { error: { message: string } };
    expect(error.message.length).toBeGreaterThan(1_000);
    expect(new TextEncoder().encode(error.message).length).toBeLessThanOrEqual(8192);
  });
});

describe("prefill answered, but with nothing decode could use: invalid_handoff, and decode is not asked", () => {
  const unusable: [what: string, engine: string, answer: string][] = [
    ["empty body", "vllm", ""],
    ["{}", "vllm", "{}"],
    ["HTML", "vllm", "<html>x</html>"],
    ["truncated JSON", "vllm", '{"kv_transfer_params":{"do_'],
    ["null", "vllm", nixlAnswer("null")],
    ["{} as hand-off", "vllm", nixlAnswer("{}")],
    ["no blocks", "vllm", nixlAnswer().replace("[[1,2,3]]", "[[]]")],
    ["blocks null", "vllm", nixlAnswer().replace("[[1,2,3]]", "null")],
    ["no blocks at all", "vllm", nixlAnswer().replace("[[1,2,3]]", "[]")],
    ["no request id", "vllm", nixlAnswer().replace('"remote_request_id":"chatcmpl-1",', "")],
    ["no engine id", "vllm", nixlAnswer().replace('"remote_engine_id":"e-1",', "")],
    ["no host", "vllm", nixlAnswer().replace('"remote_host":"10.0.0.7",', "")],
    ["no port", "vllm", nixlAnswer().replace('"remote_port":5701,', "")],
    ["not a remote prefill", "vllm", nixlAnswer().replace('"do_remote_prefill":true', '"do_remote_prefill":false')],
    ["empty body", "trtllm", ""],
    ["{}", "trtllm", "{}"],
    ["no choices", "trtllm", '{"choices":[]}'],
    [
      "two choices",
      "trtllm",
      '{"prompt_token_ids":[1],"choices":[{"index":0,"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}},{"index":1,"finish_reason":"length"}]}',
    ],
    [
      "ids null",
      "trtllm",
      '{"prompt_token_ids":[1],"choices":[{"index":0,"finish_reason":"length","disaggregated_params":{"ctx_request_id":null,"disagg_request_id":2}}]}',
    ],
    ["HTML", "trtllm", "<html>x</html>"],
    ["truncated JSON", "trtllm", '{"choices":[{"ind'],
  ];
  test.each(unusable.map(([what, engine, answer]) => [engine, what, answer] as const))(
    "%s: %s",
    async (engine, _what, answer) => {
      const { at, ask, sent, load } = handRouter({ engine }, ONCE);
      const { response } = ask({ stream: false });
      await settled();
      at("p1").whole(answer);
      const { status, code, error } = await told(response);
      expect(status).toBe(502);
      expect(["invalid_handoff", "prefill_failed"]).toContain(String(code));
      expect(["handoff", "prefill"]).toContain(String(error.stage));
      expect(String(error.message)).not.toContain("\n    at ");
      expect(sent()).toEqual(["p1"]);
      expect(load()).toBe(0);
    },
  );
});
