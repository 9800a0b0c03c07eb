import { describe, expect, test } from "bun:test";
import { handRouter, KV, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { DONE, finish, say } from "../relay/hand-made.ts";
import { POOL, post, told } from "./lab.ts";

/** Contract section 8 (and the body rules of section 2 and 6): what the router writes into bodies, and what it leaves alone. */

const CTX =
  '{"request_type":"context_only","ctx_request_id":9223372036854775801,"disagg_request_id":9223372036854775802,"first_gen_tokens":[7],"encoded_opaque_state":"YWJj","x":1e400}';
const trtAnswer = (params = CTX) =>
  `{"id":"x","prompt_token_ids":[1,2,3],"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length","disaggregated_params":${params}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`;

type Engine = "sglang" | "vllm" | "trtllm";
const ENGINES: readonly Engine[] = ["sglang", "vllm", "trtllm"];

/** Both legs' bodies for a client's text. */
async function legsOf(
  engine: Engine,
  body: string,
  api: "chat" | "completions" | "responses" | "messages" | "generate" = "chat",
): Promise<{ prefill: string; decode: string }> {
  const { router, at } = handRouter({ engine });
  post(router, api, body);
  await settled();
  if (engine === "vllm") at("p1").whole(nixlAnswer());
  if (engine === "trtllm") at("p1").whole(trtAnswer());
  await settled();
  return { prefill: at("p1").body, decode: at("d1").body };
}

describe("everything the router does not own stays byte for byte as the client sent it", () => {
  const kept = [
    '"chat_template_kwargs": {"enable_thinking":false,  "b":[1,null,{"c":2.50}]}',
    '"return_token_ids":true',
    '"priority":-3',
    '"seed":9223372036854775807',
    '"user":12345678901234567890',
    '"temperature":1.0',
    '"top_p":1e-7',
    '"tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":{"const":2512292042121000001},"m":{}}}}]',
    '"__proto__":{"x":1}',
    '"constructor":"c"',
    '"text_\\u00e9":"\\u00e9\\/\\ud83d\\ude00 é😀"',
    '"x_null":null',
    '"logit_bias":{"50256":-100}',
  ];
  const text = `\n{ "model":"m" ,\t"messages":[{"role":"user","content":[{"type":"x_new","x":[1]},{"type":"text","text":"h\\u0069"}]}],\r\n ${kept.join(" , ")} }\n`;

  test.each(ENGINES.map((engine) => [engine] as const))("%s", async (engine) => {
    const { prefill, decode } = await legsOf(engine, text);
    for (const leg of [prefill, decode]) {
      let from = 0;
      for (const member of kept) {
        const at = leg.indexOf(member, from);
        expect([member, at >= from]).toEqual([member, true]);
        from = at;
      }
      expect(leg).toContain(
        '"messages":[{"role":"user","content":[{"type":"x_new","x":[1]},{"type":"text","text":"h\\u0069"}]}]',
      );
      JSON.parse(leg);
    }
    if (engine === "vllm") expect(decode).toContain(text.trim().slice(0, -2));
  });
});

describe("router-owned fields from a client are removed, all top-level occurrences, before either leg is sent", () => {
  const OWNED = [
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "kv_transfer_params",
    "disaggregated_params",
    "rid",
    "request_id",
    "data_parallel_rank",
    "routed_dp_rank",
    "disagg_prefill_dp_rank",
    "bootstrap_pair_key",
    "ec_transfer_params",
  ];
  const evil = (name: string) =>
    `"${name}":"EVIL1","\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}":{"a":"EVIL2"}`;
  const text = `{${evil("rid")},"model":"m","messages":[{"role":"user","content":"x","rid":"inner","bootstrap_room":1}],${OWNED.map(evil).join(",")},"z":1,${evil("request_id")}}`;

  test.each(ENGINES.map((engine) => [engine] as const))(
    "%s: on both legs, and nowhere below the top",
    async (engine) => {
      const { prefill, decode } = await legsOf(engine, text);
      for (const leg of [prefill, decode]) {
        expect(leg).not.toContain("EVIL");
        expect(leg).toContain('"rid":"inner","bootstrap_room":1');
        const members = JSON.parse(leg) as Record<string, unknown>;
        expect(members.rid).toBeUndefined();
        expect(members.z).toBe(1);
      }
    },
  );

  test("on one worker and on the forwarded routes too", async () => {
    const pool = { engine: "openai", prefill: [], decode: [], workers: [{ name: "w", url: "http://w:1" }] };
    for (const path of ["/v1/chat/completions", "/v1/embeddings"] as const) {
      const { router, at } = handRouter(pool);
      post(router, path, text);
      await settled();
      expect(at("w").body).not.toContain("EVIL");
      expect(at("w").body).toContain('"rid":"inner"');
    }
  });
});

describe("of other duplicate members the last one decides", () => {
  test("stream", async () => {
    for (const [first, last] of [
      [true, false],
      [false, true],
    ]) {
      const { router, at } = handRouter({ engine: "vllm" });
      const response = post(router, "chat", `{"model":"m","stream":${first},"messages":[],"stream":${last}}`);
      await settled();
      expect(JSON.parse(at("p1").body)).toMatchObject({ stream: false });
      at("p1").whole(nixlAnswer());
      await settled();
      expect(JSON.parse(at("d1").body)).toMatchObject({ stream: last });
      if (last) at("d1").head().push(say("a"), finish(), DONE).end();
      else at("d1").json({ choices: [] });
      expect((await response).headers.get("content-type")).toStartWith(last ? "text/event-stream" : "application/json");
    }
  });

  test("model, and the alias it may be", async () => {
    const models = [
      { id: "m", aliases: ["a"], pools: [POOL] },
      { id: "o", pools: [{ name: "o", engine: "openai", workers: [{ name: "w", url: "http://w:1" }] }] },
    ];
    for (const [text, leg, model] of [
      ['{"model":"o","messages":[],"model":"a"}', "p1", "m"],
      ['{"model":"a","messages":[],"model":"o"}', "w", "o"],
      ['{"model":"nobody","messages":[],"model":"m"}', "p1", "m"],
    ] as const) {
      const { router, at, sent } = handRouter({}, { models });
      post(router, "chat", text);
      await settled();
      expect(sent()[0]).toBe(leg);
      // An engine may read the first of two: none may say another name than the one that was routed by.
      expect((JSON.parse(at(leg).body) as { model: string }).model).toBe(model);
    }
    const { router } = handRouter({}, { models });
    expect(await told(post(router, "chat", '{"model":"m","messages":[],"model":"nobody"}'))).toMatchObject({
      status: 404,
    });
  });

  test("limits on the prefill leg: one token whichever is read", async () => {
    const { prefill, decode } = await legsOf("vllm", '{"model":"m","max_tokens":5,"messages":[],"max_tokens":9}');
    expect(prefill).not.toMatch(/"max_tokens":\s*[59]/);
    expect(JSON.parse(prefill)).toMatchObject({ max_tokens: 1 });
    expect(decode).toContain('"max_tokens":5,"messages":[],"max_tokens":9');
  });
});

describe("a router-made integer is exact in JSON text", () => {
  test("rooms and ids beyond 2^53, equal on both legs, within 63 bits", async () => {
    const rooms = new Set<string>();
    for (let round = 0; round < 20; round++) {
      const { prefill, decode } = await legsOf("sglang", '{"model":"m","messages":[]}');
      const [a, b] = [prefill, decode].map((leg) => /"bootstrap_room":\s*(\d+)[,}]/.exec(leg)![1]!);
      expect(a).toBe(b!);
      expect(BigInt(a!) < 2n ** 63n).toBe(true);
      rooms.add(a!);
    }
    expect(rooms.size).toBe(20);
    expect([...rooms].some((room) => BigInt(room) > 2n ** 53n)).toBe(true);
    const { prefill } = await legsOf("trtllm", '{"model":"m","messages":[]}');
    const id = BigInt(/"disagg_request_id":\s*(\d+)[,}]/.exec(prefill)![1]!);
    expect(id >= 2n ** 40n && id < 2n ** 63n).toBe(true);
  });
});

describe("a hand-off object travels from prefill's answer to decode's request as raw text", () => {
  test("vllm: byte for byte", async () => {
    const odd = KV.replace(
      '"tp_size":1',
      '"tp_size" : 1, "remote_blocks_expiry_time":1.50e3,"x":[ 9007199254740993 ,"\\u00e9"]',
    );
    const { router, at } = handRouter({ engine: "vllm" });
    post(router, "chat", '{"model":"m","messages":[]}');
    await settled();
    at("p1").whole(nixlAnswer(odd));
    await settled();
    expect(at("d1").body).toBe(`{"model":"m","messages":[],"kv_transfer_params":${odd}}`);
  });

  test("trtllm: byte for byte but for request_type and ctx_usage", async () => {
    const { decode } = await legsOf("trtllm", '{"model":"m","messages":[]}');
    for (const member of [
      '"ctx_request_id":9223372036854775801',
      '"disagg_request_id":9223372036854775802',
      '"encoded_opaque_state":"YWJj"',
      '"x":1e400',
      '"request_type":"generation_only"',
    ]) {
      expect(decode).toContain(member);
    }
    expect(decode).toMatch(/"ctx_usage":\s*\{"prompt_tokens":3,"completion_tokens":1\}/);
    expect(decode).toContain('"prompt_token_ids":[1,2,3]');
  });
});

describe("vllm prefill leg: one token, not streamed, nothing that fights with that", () => {
  test.each([
    ["chat", '{"model":"m","messages":[],"max_completion_tokens":400}'],
    ["chat", '{"model":"m","messages":[],"max_completion_tokens":400,"max_tokens":300}'],
    ["chat", '{"model":"m","messages":[]}'],
    ["completions", '{"model":"m","prompt":"x","max_tokens":400,"best_of":1}'],
    ["responses", '{"model":"m","input":"x","max_output_tokens":400}'],
    ["messages", '{"model":"m","messages":[],"max_tokens":400,"stop_sequences":["x"]}'],
  ] as const)("%s %s", async (api, text) => {
    const { router, at } = handRouter({ engine: "vllm" });
    const more = `,"stream":true,"stream_options":{"include_usage":true},"min_tokens":100,"min_completion_tokens":9,"stop":["x"],"stop_token_ids":[1],"logprobs":true,"top_logprobs":3,"tools":[{"a":1}]}`;
    post(router, api, text.slice(0, -1) + more);
    await settled();
    const leg = JSON.parse(at("p1").body) as Record<string, unknown>;
    expect(leg.stream).toBe(false);
    for (const gone of [
      "stream_options",
      "min_tokens",
      "min_completion_tokens",
      "stop",
      "stop_token_ids",
      "logprobs",
      "top_logprobs",
    ]) {
      expect([gone, leg[gone]]).toEqual([gone, undefined]);
    }
    for (const [name, value] of Object.entries(leg))
      if (/^max_.*tokens$/.test(name)) expect([name, value]).toEqual([name, 1]);
    for (const name of /"max_\w+_?tokens"/g[Symbol.match](text) ?? []) expect(leg[name.slice(1, -1)]).toBe(1);
    expect(leg.tools).toEqual([{ a: 1 }]);
    expect(at("p1").body).toContain(
      '"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}',
    );
  });
});

describe("section 6: the release request's exact body", () => {
  const cases: [
    engine: Engine,
    api: "chat" | "completions" | "responses" | "messages",
    text: string,
    limits: object,
  ][] = [
    ["vllm", "chat", '"messages":[ 1 ],"max_tokens":9', { max_tokens: 1 }],
    ["vllm", "chat", '"messages":[ 1 ],"max_completion_tokens":9', { max_completion_tokens: 1 }],
    [
      "vllm",
      "chat",
      '"messages":[ 1 ],"max_completion_tokens":9,"max_tokens":8',
      { max_tokens: 1, max_completion_tokens: 1 },
    ],
    ["vllm", "completions", '"prompt":"x"', { max_tokens: 1 }],
    ["vllm", "responses", '"input":"x"', { max_output_tokens: 1 }],
    ["vllm", "messages", '"messages":[ 1 ],"max_tokens":9', { max_tokens: 1 }],
    ["trtllm", "chat", '"messages":[ 1 ],"max_tokens":9', { max_tokens: 1 }],
  ];
  test.each(cases)("%s %s %s", async (engine, api, members, limits) => {
    const { router, at, sent, counter } = handRouter({ engine, cancel: "deferred" });
    const client = new AbortController();
    const text = `{"model":"m",${members},"min_tokens":4,"stream":true,"stream_options":{"include_usage":true},"seed":9223372036854775807}`;
    const path = { chat: "chat/completions", completions: "completions", responses: "responses", messages: "messages" }[
      api
    ];
    void router.fetch(
      new Request(`http://r/v1/${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: text,
        signal: client.signal,
      }),
    );
    await settled();
    client.abort();
    await settled();
    at("p1").whole(engine === "vllm" ? nixlAnswer() : trtAnswer());
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    const { body } = at("d1");
    const leg = JSON.parse(body) as Record<string, unknown>;
    const found = Object.fromEntries(Object.entries(leg).filter(([name]) => /^max_\w*tokens$/.test(name)));
    expect(found).toEqual(limits as Record<string, unknown>);
    expect(leg.stream).toBe(false);
    for (const gone of ["stream_options", "min_tokens"]) expect(leg[gone]).toBeUndefined();
    expect(body).toContain('"seed":9223372036854775807');
    if (engine === "vllm") {
      expect(body).toContain(`"kv_transfer_params":${KV}`);
      expect(body).toContain(members.split(',"max')[0]!);
    }
    expect(at("d1").closed).toBe(false);
    expect(counter("handoffs_released_total")).toBe(1);
  });
});

describe("answers: an alias comes back as the client's name, in every chunk and buffered; texts that name the model stay", () => {
  const models = [{ id: "org/m-8b", aliases: ["fast"], pools: [POOL] }];
  test("streamed and buffered", async () => {
    for (const stream of [true, false]) {
      const { router, at } = handRouter({}, { models });
      const response = post(router, "chat", `{"model":"fast","messages":[],"stream":${stream}}`);
      await settled();
      for (const leg of ["p1", "d1"]) expect(at(leg).body).toContain('"model":"org/m-8b"');
      at("p1").json(PREFILLED);
      const chunk = (finish: string) =>
        `data: {"id":"c","model":"org/m-8b","choices":[{"index":0,"delta":{"content":"I am org/m-8b, \\"model\\":\\"org/m-8b\\""},"finish_reason":${finish}}]}\n\n`;
      const whole =
        '{"id":"c","model":"org/m-8b","choices":[{"index":0,"message":{"content":"I am \\"model\\":\\"org/m-8b\\""}}]}';
      if (stream) {
        const text = chunk("null") + chunk('"stop"') + DONE;
        const decode = at("d1").head();
        for (let from = 0; from < text.length; from += 11) decode.push(text.slice(from, from + 11));
        decode.end();
        expect(await textOf(response)).toBe(text.replaceAll('"c","model":"org/m-8b"', '"c","model":"fast"'));
      } else {
        at("d1").whole(whole);
        expect(await textOf(response)).toBe(whole.replace('"c","model":"org/m-8b"', '"c","model":"fast"'));
      }
    }
  });
});
