import { describe, expect, test } from "bun:test";
import type { Step } from "../../src/simulator/script.ts";
import { type Between, DIALECTS, postChat, startPair } from "./pair.ts";

const SEED = "9223372036854775807";
/** Nothing in here survives `JSON.parse` and `JSON.stringify`. */
const UNKNOWN =
  '"x_meta": {"id":9007199254740993, "deep":[18446744073709551615,{"k":-9223372036854775808}], "digits":1.0, "exp":1E2, "esc":"\\u00e9\\/"}';
const BODY = `{"model":"demo-model","messages":[{"role":"user","content":"Count [sim:tokens=6]"}],"seed":${SEED},${UNKNOWN},"stream":STREAM}`;
const BIG = '"x_big":9007199254740993,"x_bigger":18446744073709551615';

/** Puts integers beyond 2^53 into whatever decode answers, JSON or events, as an engine with such fields would. */
const withBigIntegers: Between = async (request, engine) => {
  const script = await engine.handle(request);
  if (request.method !== "POST") return script;
  const headers = script.headers.filter(([name]) => name !== "content-length");
  return { ...script, headers, steps: bigger(script.steps), ending: script.ending };
};

async function* bigger(steps: AsyncIterable<Step> | readonly Step[]): AsyncGenerator<Step> {
  for await (const step of steps) {
    const text = typeof step.bytes === "string" ? step.bytes : new TextDecoder().decode(step.bytes);
    yield { ...step, bytes: text.replaceAll(/(^|data: )\{"id"/gm, `$1{${BIG},"id"`) };
  }
}

describe.each([...DIALECTS])("%s: integers beyond 2^53 are never a number on the way", (dialect) => {
  test.each([true, false])("stream: %p", async (stream) => {
    await using pair = await startPair(dialect, { decode: withBigIntegers });
    const response = await postChat(pair.base, BODY.replace("STREAM", String(stream)));
    expect(response.status).toBe(200);
    const text = await response.text();
    // From the engine to the client: the digits as they were written.
    expect(text).toContain(BIG);
    if (stream)
      for (const line of text.split("\n").filter((one) => one.startsWith("data: {"))) expect(line).toContain(BIG);

    // From the client to both engines, on the raw bytes.
    const prefill = pair.prefill.log.find(({ method }) => method === "POST")!.body;
    const decode = pair.decode.log.find(({ method }) => method === "POST")!.body;
    for (const body of [prefill, decode]) {
      expect(body).toContain(`"seed":${SEED}`);
      expect(body).toContain(UNKNOWN);
      expect(body).toContain('"content":"Count [sim:tokens=6]"');
    }
    checkHandoff(dialect, prefill, decode);
    await pair.idle();
  });
});

/** What the router itself writes or carries: rooms and ids up to 2^63, equal as text on both legs. */
function checkHandoff(dialect: string, prefill: string, decode: string): void {
  const find = (body: string, key: string) => new RegExp(`"${key}":\\s*("[^"]*"|\\d+)`).exec(body)?.[1];
  if (dialect === "sglang") {
    const room = find(prefill, "bootstrap_room")!;
    expect(find(decode, "bootstrap_room")).toBe(room);
    expect(room).toMatch(/^\d+$/);
    expect(BigInt(room) < 2n ** 63n).toBe(true);
  } else if (dialect === "vllm") {
    expect(find(decode, "remote_request_id")).toStartWith('"chatcmpl-');
    expect(find(decode, "do_remote_prefill")).toBeUndefined();
    expect(decode).toMatch(/"do_remote_prefill":\s*true/);
  } else {
    const ours = find(prefill, "disagg_request_id")!;
    expect(BigInt(ours) >= 2n ** 40n && BigInt(ours) < 2n ** 63n).toBe(true);
    const context = find(decode, "ctx_request_id")!;
    expect(context).toMatch(/^\d+$/);
    // Beyond what a number holds, or the test would prove nothing.
    expect(BigInt(context) > 2n ** 53n).toBe(true);
    expect(String(Number(context)) === context).toBe(false);
  }
}

test("sglang: rooms use the whole range, so most are beyond 2^53, and no two are equal", async () => {
  await using pair = await startPair("sglang");
  await Promise.all(
    Array.from({ length: 30 }, async () => {
      const response = await postChat(pair.base, BODY.replace("STREAM", "true"));
      await response.text();
    }),
  );
  const rooms = pair.prefill.log
    .filter(({ method }) => method === "POST")
    .map(({ body }) => /"bootstrap_room":\s*(\d+)/.exec(body)![1]!);
  expect(new Set(rooms).size).toBe(30);
  expect(rooms.filter((room) => BigInt(room) > 2n ** 53n).length).toBeGreaterThan(20);
  await pair.idle();
});
