import { describe, expect, test } from "bun:test";
import type { Api } from "../../src/sse/api.ts";
import { type HandRouter, handRouter, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { answerEvents, apis, errorEvent, requestBody } from "../faults/streams.ts";
import { chunk, DONE, event, finish, ROLE, say } from "../relay/hand-made.ts";
import { post, told } from "./lab.ts";

/** Contract sections 4 (after the commit) and 5, API by API and sentence by sentence. */

const SGLANG = { engine: "sglang" };
const ONCE = { retries: { maxRetries: 0 } };

interface Open {
  lab: HandRouter;
  response: Promise<Response>;
}

/** A stream of one API on an sglang pair; decode's headers are out. */
async function open(api: Api, config: object = ONCE): Promise<Open> {
  const lab = handRouter(SGLANG, config);
  const response = post(lab.router, api, requestBody(api, true));
  await settled();
  lab.at("d1").head();
  return { lab, response };
}

/** Whether the status is out. */
async function committed(response: Promise<Response>): Promise<boolean> {
  let out = false;
  void response.then(() => {
    out = true;
  });
  await settled();
  return out;
}

const bytes = (api: Api, ...roles: string[]): string[] =>
  answerEvents(api)
    .filter(({ role }) => roles.includes(role))
    .map((item) => item.bytes.toString());

const FRAME: Record<Api, RegExp> = {
  chat: /^data: \{"error":\{"message":"[^"]+","type":"[^"]+","code":"[^"]+","param":null,"stage":"\w+"\}\}\n\ndata: \[DONE\]\n\n$/,
  completions:
    /^data: \{"error":\{"message":"[^"]+","type":"[^"]+","code":"[^"]+","param":null,"stage":"\w+"\}\}\n\ndata: \[DONE\]\n\n$/,
  generate:
    /^data: \{"error":\{"message":"[^"]+","type":"[^"]+","code":"[^"]+","param":null,"stage":"\w+"\}\}\n\ndata: \[DONE\]\n\n$/,
  messages: /^event: error\ndata: \{"type":"error","error":\{"type":"api_error","message":"[^"]+"\}\}\n\n$/,
  responses:
    /^event: error\ndata: \{"type":"error","code":"[^"]+","message":"[^"]+","param":null,"sequence_number":\d+,"error":\{"message":"[^"]+","type":"[^"]+","code":"[^"]+"\}\}\n\n$/,
};

describe("commits on: an event that carries an answer, not headers, not a first chunk that says nothing", () => {
  for (const api of apis) {
    test(api, async () => {
      const { lab, response } = await open(api);
      expect(await committed(response)).toBe(false);
      lab.at("d1").push(...bytes(api, "lead"));
      expect(await committed(response)).toBe(false);
      const [first] = bytes(api, "answer");
      lab.at("d1").push(first!);
      expect(await committed(response)).toBe(true);
      expect((await response).status).toBe(200);
    });
  }

  const answers: [api: Api, what: string, event: string][] = [
    ["chat", "reasoning", chunk({ reasoning_content: "hm" })],
    ["chat", "reasoning, vLLM's newer name", chunk({ reasoning: "hm" })],
    ["chat", "a tool call", chunk({ tool_calls: [{ index: 0, function: { name: "f", arguments: "" } }] })],
    [
      "chat",
      "logprobs",
      event({
        choices: [
          {
            index: 0,
            delta: { content: "" },
            logprobs: { content: [{ token: "", logprob: -1 }] },
            finish_reason: null,
          },
        ],
      }),
    ],
    ["chat", "token ids", event({ choices: [{ index: 0, delta: {}, token_ids: [7], finish_reason: null }] })],
    ["completions", "token ids", event({ choices: [{ index: 0, text: "", token_ids: [7], finish_reason: null }] })],
    ["completions", "text", event({ choices: [{ index: 0, text: "a", finish_reason: null }] })],
    ["generate", "output_ids", event({ text: "", output_ids: [7], meta_info: { finish_reason: null } })],
    ["responses", "a delta", 'data: {"type":"response.function_call_arguments.delta","delta":"{"}\n\n'],
    ["responses", "an output item", 'data: {"type":"response.output_item.added","item":{}}\n\n'],
    ["messages", "content_block_delta", 'data: {"type":"content_block_delta","delta":{"type":"input_json_delta"}}\n\n'],
  ];
  test.each(answers)("%s: %s does", async (api, _what, chunk) => {
    const { lab, response } = await open(api);
    lab.at("d1").push(chunk);
    expect(await committed(response)).toBe(true);
  });

  const empty: [api: Api, what: string, event: string][] = [
    ["chat", "role only", ROLE],
    ["chat", "empty content", say("")],
    ["chat", "empty tool calls", chunk({ tool_calls: [] })],
    ["chat", "nulls", chunk({ content: null, reasoning_content: null, tool_calls: null })],
    ["chat", "usage only", event({ choices: [], usage: { prompt_tokens: 1 } })],
    ["chat", "a comment", ": ping\n\n"],
    ["chat", "error null", event({ error: null, choices: [{ index: 0, delta: { content: "" } }] })],
    ["completions", "empty text", event({ choices: [{ index: 0, text: "" }] })],
    ["generate", "empty text", event({ text: "", output_ids: [], meta_info: { finish_reason: null } })],
    ["responses", "response.created", 'data: {"type":"response.created","response":{}}\n\n'],
    ["messages", "ping", 'event: ping\ndata: {"type":"ping"}\n\n'],
    ["messages", "content_block_start", 'data: {"type":"content_block_start","content_block":{}}\n\n'],
  ];
  test.each(empty)("%s: %s does not", async (api, _what, chunk) => {
    const { lab, response } = await open(api);
    lab.at("d1").push(chunk);
    expect(await committed(response)).toBe(false);
  });

  test("what is held is sent with the next, byte for byte", async () => {
    const { lab, response } = await open("chat");
    const all = [": hi\n\n", ROLE, say(""), say("a"), finish(), DONE];
    lab.at("p1").json(PREFILLED);
    lab.at("d1").push(...all);
    expect(await textOf(response)).toBe(all.join(""));
  });

  test("after 16 events or 64 KiB the status is committed anyway", async () => {
    const many = await open("chat");
    many.lab.at("d1").push(...Array<string>(15).fill(ROLE));
    expect(await committed(many.response)).toBe(false);
    many.lab.at("d1").push(ROLE);
    expect(await committed(many.response)).toBe(true);
    const large = await open("chat");
    const half = chunk({ role: "assistant", content: "", x: "y".repeat(40_000) });
    large.lab.at("d1").push(half);
    expect(await committed(large.response)).toBe(false);
    large.lab.at("d1").push(half);
    expect(await committed(large.response)).toBe(true);
  });

  test("an answer is still noticed after that: no limit of the first token runs on", async () => {
    const { lab, response } = await open("chat", { timeouts: { firstTokenMs: 100, idleMs: 1_000 } });
    lab.at("p1").json(PREFILLED);
    lab.at("d1").push(...Array<string>(16).fill(ROLE), say("a"));
    const text = textOf(response);
    await settled();
    await lab.clock.advance(900);
    lab.at("d1").push(finish(), DONE).end();
    expect(await text).toEndWith([say("a"), finish(), DONE].join(""));
  });
});

describe("an answer that is finished by its first event: the status is committed when it is released", () => {
  for (const api of apis) {
    test(api, async () => {
      const { lab, response } = await open(api, { timeouts: { settleMs: 100 } });
      const [only] = bytes(api, "finish");
      lab.at("d1").push(only!);
      expect(await committed(response)).toBe(false);
      await lab.clock.advance(99);
      expect(await committed(response)).toBe(false);
      await lab.clock.advance(1);
      expect(await committed(response)).toBe(true);
    });

    test(`${api}: a tail that fails meanwhile is a real status`, async () => {
      const { lab, response } = await open(api);
      lab.at("d1").push(...bytes(api, "finish"));
      await settled();
      lab.at("p1").json({ error: { message: "late" } }, 507);
      expect(await told(response)).toMatchObject({ status: 507, code: "prefill_failed" });
    });
  }
});

describe("after the commit: one SSE event of its own, then the terminator of the API, then a clean end", () => {
  for (const api of apis) {
    test(`${api}: prefill fails late`, async () => {
      const { lab, response } = await open(api);
      const before = [...bytes(api, "lead"), ...bytes(api, "answer").slice(0, 2)];
      lab.at("d1").push(...before, "data: {half an ev");
      const text = textOf(response);
      await settled();
      lab.at("p1").reset();
      const got = await text;
      expect(got.slice(0, before.join("").length)).toBe(before.join(""));
      expect(got.slice(before.join("").length)).toMatch(FRAME[api]);
      expect(lab.at("d1").closed).toBe(true);
    });

    test(`${api}: decode's own nested frame is passed unchanged, once`, async () => {
      const { lab, response } = await open(api);
      const before = [...bytes(api, "lead"), ...bytes(api, "answer").slice(0, 1)];
      const own = errorEvent(api).toString();
      lab.at("d1").push(...before, own, DONE);
      const done = api === "messages" || api === "responses" ? "" : DONE;
      expect(await textOf(response)).toBe([...before, own, done].join(""));
      expect(lab.at("p1").closed).toBe(true);
    });

    test(`${api}: a stream that ends without finish and end mark is decode_failed`, async () => {
      const { lab, response } = await open(api);
      const before = [...bytes(api, "lead"), ...bytes(api, "answer").slice(0, 1)];
      lab
        .at("d1")
        .push(...before)
        .end();
      const got = await textOf(response);
      expect(got.slice(before.join("").length)).toMatch(FRAME[api]);
      expect(got).not.toContain('"finish_reason":"');
      if (api !== "messages") expect(got).toContain("decode_failed");
    });
  }

  test("responses: sequence_number is the next one", async () => {
    const { lab, response } = await open("responses");
    const before = [...bytes("responses", "lead"), ...bytes("responses", "answer").slice(0, 3)];
    lab
      .at("d1")
      .push(...before)
      .cut();
    expect(await textOf(response)).toContain(`"sequence_number":${before.length},`);
  });

  test("never: a retry after the status is committed", async () => {
    const { lab, response } = await open("chat", {});
    lab.at("d1").push(say("a")).cut();
    await textOf(response);
    await lab.clock.advance(10_000);
    expect(lab.sent()).toEqual(["p1", "d1"]);
  });
});

describe("once the finish event is released nothing can fail any more", () => {
  const ends: Record<Api, string> = {
    chat: DONE,
    completions: DONE,
    generate: DONE,
    responses: "",
    messages: 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
  };
  for (const api of apis) {
    for (const how of ["a cut", "silence", "a missing end mark", "an error event", "a prefill failure"] as const) {
      test(`${api}: ${how} after it`, async () => {
        const { lab, response } = await open(api, { timeouts: { settleMs: 10, idleMs: 1_000 } });
        const before = bytes(api, "lead", "answer", "middle", "finish");
        lab.at("d1").push(...before);
        const text = textOf(response);
        await lab.clock.advance(10);
        if (how === "a cut") lab.at("d1").cut();
        else if (how === "silence") await lab.clock.advance(1_000);
        else if (how === "a missing end mark") lab.at("d1").end();
        else if (how === "an error event") lab.at("d1").push(errorEvent(api).toString()).end();
        else {
          lab.at("p1").json({ error: { message: "too late" } }, 500);
          await settled();
          lab.at("d1").push(ends[api]).end();
        }
        expect(await text).toBe(before.join("") + ends[api]);
        const { router } = lab;
        expect(router.telemetry.metrics.render()).toMatch(
          /prefill_router_requests_total\{[^}]*outcome="success"[^}]*\} 1/,
        );
      });
    }
  }
});

describe("decode's success waits for an unsettled prefill tail, at most settleMs", () => {
  for (const api of apis) {
    test(`${api}: the finish event is held, nothing before it is`, async () => {
      const { lab, response } = await open(api, { timeouts: { settleMs: 100 } });
      const before = bytes(api, "lead", "answer");
      const rest = [...bytes(api, "middle"), ...bytes(api, "finish"), ...bytes(api, "end")];
      lab
        .at("d1")
        .push(...before, ...rest)
        .end();
      const got = await response;
      const reader = got.body!.getReader();
      const decoder = new TextDecoder();
      let text = "";
      const reading = (async () => {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return;
          text += decoder.decode(value, { stream: true });
        }
      })();
      await settled();
      expect(text).toBe([...before, ...bytes(api, "middle")].join(""));
      await lab.clock.advance(100);
      await reading;
      expect(text).toBe([...before, ...rest].join(""));
    });
  }

  test("the finish event of the last open choice, not of the first (n > 1 on one worker)", async () => {
    const lab = handRouter({ engine: "openai", prefill: [], decode: [], workers: [{ name: "w", url: "http://w:1" }] });
    const { response } = lab.ask({ n: 2 });
    await settled();
    const all = [chunk({ content: "a" }), chunk({}, "stop"), chunk({ content: "b" }, null, 1)];
    lab
      .at("w")
      .head()
      .push(...all)
      .cut();
    // The second choice is open, so this cut is a failure.
    expect(await textOf(response)).toContain('"code":"decode_failed"');
  });

  test("a buffered answer waits as well", async () => {
    const lab = handRouter(SGLANG, { timeouts: { settleMs: 100 } });
    const { response } = lab.ask({ stream: false });
    await settled();
    lab.at("d1").json({ choices: [] });
    expect(await committed(response)).toBe(false);
    await lab.clock.advance(100);
    expect(await committed(response)).toBe(true);
  });

  test("once prefill's status has said that it failed, success waits for its words, and never goes out", async () => {
    for (const stream of [true, false]) {
      const lab = handRouter(SGLANG, { timeouts: { settleMs: 100 }, ...ONCE });
      const { response } = lab.ask({ stream });
      await settled();
      lab.at("p1").head({ "content-length": "100", "content-type": "application/json" }, 500).push('{"error":');
      if (stream) lab.at("d1").head().push(ROLE, say("a"), finish(), DONE).end();
      else lab.at("d1").json({ choices: [] });
      await settled();
      await lab.clock.advance(1_900);
      const text = textOf(response);
      await lab.clock.advance(100);
      expect(await text).toContain('"code":"prefill_failed"');
      expect(await text).not.toContain('"finish_reason":"stop"');
      await lab.clock.advance(2_000);
      expect([lab.load(), lab.router.active(), lab.clock.timers.size]).toEqual([0, 0, 0]);
    }
  });

  test("a buffered answer whose tail fails meanwhile is prefill's failure", async () => {
    const lab = handRouter(SGLANG, ONCE);
    const { response } = lab.ask({ stream: false });
    await settled();
    lab.at("d1").json({ choices: [] });
    await settled();
    lab.at("p1").json({ error: { message: "lost" } }, 500);
    expect(await told(response)).toMatchObject({ status: 500, code: "prefill_failed" });
  });
});

describe("lateFailure", () => {
  const losses = ["reset", "cut"] as const;
  for (const how of losses) {
    test(`definitive: a tail that is only lost (${how}) after content is counted, and the stream goes on`, async () => {
      const { lab, response } = await open("chat", { lateFailure: "definitive" });
      lab.at("d1").push(ROLE, say("a"));
      const text = textOf(response);
      await settled();
      if (how === "cut") lab.at("p1").head({ "content-type": "application/json" }).push("{").cut();
      else lab.at("p1").reset();
      await settled();
      lab.at("d1").push(say("b"), finish(), DONE).end();
      expect(await text).toBe([ROLE, say("a"), say("b"), finish(), DONE].join(""));
      expect(lab.counter("late_failures_total")).toBe(1);
    });
  }

  test("definitive: before any content, role chunk or not, it is a failure", async () => {
    const { lab, response } = await open("chat", { lateFailure: "definitive", ...ONCE });
    lab.at("d1").push(ROLE);
    await settled();
    lab.at("p1").reset();
    expect(await told(response)).toMatchObject({ status: 502, code: "prefill_unreachable" });
  });

  test("definitive: an error answer is one, content or not", async () => {
    const { lab, response } = await open("chat", { lateFailure: "definitive" });
    lab.at("d1").push(say("a"));
    const text = textOf(response);
    await settled();
    lab.at("p1").json({ error: { message: "definitely" } }, 500);
    expect(await text).toContain("definitely");
  });

  test("definitive: an error answer is one by its status, also if its words are cut", async () => {
    const { lab, response } = await open("chat", { lateFailure: "definitive" });
    lab.at("d1").push(say("a"));
    const text = textOf(response);
    await settled();
    lab.at("p1").head({ "content-type": "application/json" }, 500).push('{"error":').cut();
    expect(await text).toContain('"code":"prefill_failed"');
  });

  test("definitive: what the client asked prefill for is not dispensable, streamed or buffered", async () => {
    for (const stream of [true, false]) {
      const lab = handRouter(SGLANG, { lateFailure: "definitive", ...ONCE });
      const body = JSON.stringify({ model: "m", text: "Hi", return_logprob: true, stream });
      const { response } = lab.ask({}, { path: "/generate", body });
      await settled();
      const answer = '{"text":"a","meta_info":{"finish_reason":{"type":"stop"}}}';
      if (stream) lab.at("d1").head().push(`data: ${answer}\n\n`, DONE).end();
      else lab.at("d1").json(JSON.parse(answer));
      await settled();
      lab.at("p1").reset();
      expect(await told(response)).toMatchObject({ status: 502, code: "prefill_unreachable" });
    }
  });

  test("definitive, buffered: a lost tail under a finished answer is counted, the answer goes out", async () => {
    const lab = handRouter(SGLANG, { lateFailure: "definitive" });
    const { response } = lab.ask({ stream: false });
    await settled();
    lab.at("d1").json({ choices: [] });
    await settled();
    lab.at("p1").reset();
    expect(await textOf(response)).toBe('{"choices":[]}');
    expect(lab.counter("late_failures_total")).toBe(1);
  });

  test("definitive, buffered: a tail lost before decode has answered is a failure", async () => {
    const lab = handRouter(SGLANG, { lateFailure: "definitive", ...ONCE });
    const { response } = lab.ask({ stream: false });
    await settled();
    lab.at("p1").reset();
    expect(await told(response)).toMatchObject({ status: 502, code: "prefill_unreachable" });
  });
});

describe("prefill that has already finished the answer is the answer", () => {
  const trt = (finish_reason: string, hand: boolean) =>
    `{"id":"x","model":"m","prompt_token_ids":[1,2],"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"${finish_reason}"${hand ? ',"disaggregated_params":{"ctx_request_id":9223372036854775801,"disagg_request_id":5,"first_gen_tokens":[7]}' : ""}}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`;
  const vllm = (finish_reason: string, kv: string) =>
    `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"${finish_reason}"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3},"kv_transfer_params":${kv}}`;
  const cases: [engine: string, what: string, answer: string, more: object][] = [
    ["vllm", "stop", vllm("stop", "null"), {}],
    ["vllm", "content_filter", vllm("content_filter", "{}"), {}],
    ["vllm", "tool_calls", vllm("tool_calls", "null"), {}],
    ["trtllm", "stop without a hand-off", trt("stop", false), {}],
    ["trtllm", "stop with one", trt("stop", true), {}],
    ["trtllm", "tool_calls with one", trt("tool_calls", true), {}],
    ["trtllm", "content_filter with one", trt("content_filter", true), {}],
    ["trtllm", "a client's own limit of one token", trt("length", true), { max_tokens: 1 }],
    ["trtllm", "the same by its newer name", trt("length", true), { max_completion_tokens: 1 }],
  ];
  test.each(cases)("%s: %s", async (engine, _what, answer, more) => {
    for (const stream of [false, true]) {
      const { ask, at, sent, load } = handRouter({ engine });
      const { response } = ask({ stream, ...(stream ? { stream_options: { include_usage: true } } : {}), ...more });
      await settled();
      at("p1").whole(answer);
      const got = await response;
      const text = await got.text();
      expect([got.status, got.headers.get("x-router-path")]).toEqual([200, "prefill-only"]);
      expect(sent()).toEqual(["p1"]);
      expect(text).not.toMatch(/kv_transfer_params|disaggregated_params|prompt_token_ids/);
      expect(text).toContain("ok");
      if (stream) {
        expect(got.headers.get("content-type")).toStartWith("text/event-stream");
        expect(text).toMatch(/^data: .*"role":"assistant"/);
        expect(text).toMatch(
          /"choices":\[\],.*"usage":\{"prompt_tokens":2|"usage":\{"prompt_tokens":2.*"choices":\[\]/,
        );
        expect(text).toEndWith(DONE);
        expect(text.match(/"finish_reason":"/g)).toHaveLength(1);
      }
      await settled();
      expect(load()).toBe(0);
    }
  });

  test.each(["error", "abort", "cancelled"])("a finish reason of %s is prefill_failed", async (reason) => {
    for (const [engine, answer] of [
      ["vllm", vllm(reason, "null")],
      ["trtllm", trt(reason, true)],
    ] as const) {
      const { ask, at, sent } = handRouter({ engine }, ONCE);
      const { response } = ask();
      await settled();
      at("p1").whole(answer);
      expect(await told(response)).toMatchObject({ status: 502, code: "prefill_failed" });
      expect(sent()).toEqual(["p1"]);
    }
  });

  test("a vllm first token that stops with a hand-off is handed over like any other", async () => {
    const { ask, at, sent } = handRouter({ engine: "vllm" });
    ask();
    await settled();
    at("p1").whole(nixlAnswer().replace('"finish_reason":"length"', '"finish_reason":"stop"'));
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
  });
});

describe("bytes are changed only where a request needs it", () => {
  test("a plain stream of every API passes as it is, comments, odd fields and line ends too", async () => {
    for (const api of apis) {
      const { lab, response } = await open(api);
      lab.at("p1").json(PREFILLED);
      const odd = [
        ": ping\r\n\r\n",
        "id: 7\nretry: 1000\n\n",
        ...answerEvents(api).map((item) => item.bytes.toString()),
      ];
      const text = odd.join("").replaceAll("data: ", "data:");
      const bytes = new TextEncoder().encode(text);
      for (let at = 0; at < bytes.length; at += 7) lab.at("d1").push(bytes.subarray(at, at + 7));
      lab.at("d1").end();
      expect({ api, text: await textOf(response) }).toEqual({ api, text });
    }
  });

  test("usage: cached tokens are prefill's, everything else decode's, streamed and buffered alike", async () => {
    const prefilled = { ...PREFILLED, usage: { prompt_tokens: 2000, prompt_tokens_details: { cached_tokens: 128 } } };
    const usage =
      '{"prompt_tokens":2000,"completion_tokens":40,"total_tokens":2040,"prompt_tokens_details":{"cached_tokens":1999},"x":1.0}';
    const expected = usage.replace("1999", "128");
    for (const engine of ["sglang", "vllm"]) {
      for (const stream of [true, false]) {
        const { ask, at } = handRouter({ engine });
        const { response } = ask({ stream, stream_options: stream ? { include_usage: true } : undefined });
        await settled();
        const text =
          engine === "vllm"
            ? nixlAnswer().replace('"cached_tokens":4', '"cached_tokens":128')
            : JSON.stringify(prefilled);
        at("p1").whole(text);
        await settled();
        if (stream) {
          at("d1").head().push(ROLE, say("a"), finish(), `data: {"choices":[],"usage":${usage}}\n\n`, DONE).end();
        } else at("d1").whole(`{"choices":[],"usage":${usage}}`);
        const got = await textOf(response);
        expect({ engine, stream, usage: /"usage":(\{.*?\}.*?\})/.exec(got)![1] }).toEqual({
          engine,
          stream,
          usage: expected,
        });
      }
    }
  });

  test("a usage that was not asked for is not asked of decode", async () => {
    for (const engine of ["sglang", "vllm", "trtllm"]) {
      const { ask, at } = handRouter({ engine });
      ask({ stream: true });
      await settled();
      expect(at("p1").body).not.toContain("stream_options");
      if (engine === "sglang") expect(at("d1").body).not.toContain("stream_options");
    }
  });
});

describe("a decode failure is passed on at once and does not wait for prefill", () => {
  for (const stream of [true, false]) {
    test(stream ? "streamed" : "buffered", async () => {
      const lab = handRouter(SGLANG, ONCE);
      const { response } = lab.ask({ stream });
      await settled();
      lab.at("d1").json({ error: { message: "no" } }, 400);
      expect((await told(response)).status).toBe(400);
      expect(lab.at("p1").closed).toBe(true);
      expect(lab.clock.timers.size).toBe(0);
    });
  }
});

describe("an engine's own error keeps its message, type and code in frames as in bodies", () => {
  const own = { message: "over the limit", type: "own_type", code: "own_code", param: "seed" };
  for (const api of apis) {
    test(`${api}: prefill's late answer, and decode's flat event`, async () => {
      for (const who of ["prefill", "decode"]) {
        const { lab, response } = await open(api);
        lab.at("d1").push(...bytes(api, "answer").slice(0, 1));
        const text = textOf(response);
        await settled();
        if (who === "prefill") lab.at("p1").json({ error: own }, 429);
        else lab.at("d1").push(event({ object: "error", ...own }));
        const data = (await text).split("\n").filter((line) => line.startsWith("data: {") && line.includes("own_type"));
        expect(data).toHaveLength(1);
        const frame = JSON.parse(data[0]!.slice(6)) as { error: Record<string, unknown> };
        const kept =
          api === "messages"
            ? { message: own.message, type: own.type }
            : { message: own.message, type: own.type, code: own.code };
        expect({ api, who, error: frame.error }).toMatchObject({ api, who, error: kept });
      }
    });
  }
});

describe("aggregated and decode-only answers follow the same rules", () => {
  const pool = { engine: "openai", prefill: [], decode: [], workers: [{ name: "w", url: "http://w:1" }] };
  for (const api of apis) {
    test(`${api}: byte for byte, and a cut is one frame`, async () => {
      for (const cut of [false, true]) {
        const lab = handRouter(pool, ONCE);
        const response = post(lab.router, api, requestBody(api, true));
        await settled();
        const before = bytes(api, "lead", "answer");
        const rest = cut ? [] : bytes(api, "middle", "finish", "end");
        const decode = lab
          .at("w")
          .head()
          .push(...before, ...rest);
        if (cut) decode.cut();
        else decode.end();
        const text = await textOf(response);
        expect(text.slice(0, before.join("").length)).toBe(before.join(""));
        if (cut) expect(text.slice(before.join("").length)).toMatch(FRAME[api]);
        else
          expect(text).toBe(
            answerEvents(api)
              .map((item) => item.bytes.toString())
              .join(""),
          );
        await settled();
        expect(lab.load()).toBe(0);
      }
    });
  }
});

describe("the first event waits where input logprobs were asked for", () => {
  const part = (text: string, reason: string | null = null) =>
    event({
      id: "c",
      model: "m",
      choices: [{ index: 0, text, finish_reason: reason, logprobs: text === "" ? null : { tokens: [text] } }],
    });
  const prefilled = {
    id: "p",
    choices: [{ index: 0, text: "a", finish_reason: "length", logprobs: { tokens: ["The", "prompt", "a"] } }],
  };

  test("also behind so many empty events that the status would be committed without an answer", async () => {
    const lab = handRouter(SGLANG);
    const body = JSON.stringify({ model: "m", prompt: "The prompt", echo: true, logprobs: 1, stream: true });
    const { response } = lab.ask({}, { path: "/v1/completions", body });
    await settled();
    lab.at("d1").head().push(part("").repeat(16), part(" one"), part(" two"));
    const text = textOf(response);
    await settled();
    lab.at("p1").json(prefilled);
    await settled();
    lab.at("d1").push(part(" three"), part("", "stop"), DONE).end();
    const tokens = [...(await text).matchAll(/"tokens":(\[[^\]]*\])/g)].flatMap(([, list]) => JSON.parse(list!));
    expect(tokens).toEqual(["The", "prompt", " one", " two", " three"]);
  });
});

test("firstTokenMs is decode's: a client that does not read does not use it up", async () => {
  const lab = handRouter(
    { engine: "openai", prefill: [], decode: [], workers: [{ name: "w", url: "http://w:1" }] },
    { timeouts: { firstTokenMs: 1_000 } },
  );
  const { response } = lab.ask();
  await settled();
  lab.at("w").head().push(ROLE.repeat(16));
  await settled();
  const got = await response;
  lab.at("w").push(say("hi"), finish(), DONE).end();
  await settled();
  await lab.clock.advance(2_000);
  expect(await got.text()).toContain(say("hi"));
  expect(lab.blamed("w")).toBe(0);
});

test("a stream that is answered with a whole answer: that answer, as long as no stream is promised; then a failure", async () => {
  for (const keepAliveMs of [0, 50]) {
    const lab = handRouter(SGLANG, { timeouts: { keepAliveMs } });
    const { response } = lab.ask();
    if (keepAliveMs > 0) await lab.clock.advance(keepAliveMs);
    await settled();
    lab.at("p1").json(PREFILLED);
    lab.at("d1").json({ choices: [] });
    const got = await response;
    if (keepAliveMs === 0)
      expect([got.headers.get("content-type"), await got.text()]).toEqual(["application/json", '{"choices":[]}']);
    else expect(await got.text()).toContain('"code":"decode_failed"');
  }
});
