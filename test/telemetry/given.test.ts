import { describe, expect, test } from "bun:test";
import { type HandRouter, handRouter, nixlAnswer, PREFILLED, settled } from "../attempt/hand-made.ts";
import { DONE, finish, ROLE, say, USAGE } from "../relay/hand-made.ts";

/** Bytes and blocks in log and metrics are those that the client was given. */

const COMMENT = ": keep-alive\n\n";
const WORKERS = [{ name: "w1", url: "http://w1:1" }];

function told({ router }: HandRouter) {
  return router.telemetry.recent.finished()[0]!;
}

/** What the client reads until the end: how many bytes, in how many blocks, and as text. */
async function read(response: Promise<Response>) {
  let text = "";
  let bytes = 0;
  let blocks = 0;
  for await (const block of (await response).body!) {
    text += new TextDecoder().decode(block);
    bytes += block.length;
    blocks++;
  }
  return { text, bytes, blocks };
}

describe("streams", () => {
  test("that come in one read are counted, though they are over before anything is taken", async () => {
    const hand = handRouter({ engine: "openai", prefill: [], decode: [], workers: WORKERS });
    const { response } = hand.ask();
    await settled();
    hand
      .at("w1")
      .head()
      .push([ROLE, say("hé"), finish(), DONE].join(""))
      .end();
    const given = await read(response);
    expect(given.text).toEndWith(DONE);
    expect(told(hand)).toMatchObject({ bytesOut: given.bytes, chunks: given.blocks });
    expect(hand.counter("response_bytes_total")).toBe(given.bytes);
    expect(hand.counter("inter_token_latency_seconds_count")).toBe(0);
  });

  test("that come piece by piece are counted with their last piece, and it has its part in their pace", async () => {
    const hand = handRouter({ engine: "openai", prefill: [], decode: [], workers: WORKERS });
    const { response } = hand.ask();
    await settled();
    const reading = read(response);
    const engine = hand.at("w1").head();
    for (const piece of [say("a"), say("b"), say("c"), `${finish()}${USAGE}${DONE}`]) {
      engine.push(piece);
      await hand.clock.advance(100);
    }
    engine.end();
    const given = await reading;
    expect(given.blocks).toBe(4);
    expect(told(hand)).toMatchObject({ bytesOut: given.bytes, chunks: 4 });
    expect(hand.counter("inter_token_latency_seconds_sum")).toBeCloseTo(0.1);
  });

  test("that end with an error frame are counted with it", async () => {
    const hand = handRouter({ engine: "openai", prefill: [], decode: [], workers: WORKERS });
    const { response } = hand.ask();
    await settled();
    const reading = read(response);
    hand.at("w1").head().push(ROLE, say("a"));
    await settled();
    hand.at("w1").cut();
    const given = await reading;
    expect(given.text).toContain('"error"');
    expect(told(hand)).toMatchObject({ bytesOut: given.bytes, chunks: given.blocks, errorFrame: true });
  });

  test("that nobody reads to their end are not counted beyond it", async () => {
    const hand = handRouter({ engine: "vllm" });
    const { response } = hand.ask();
    await settled();
    hand.at("p1").json({ ...PREFILLED, choices: [{ ...PREFILLED.choices[0]!, finish_reason: "stop" }] });
    await (await response).body!.cancel();
    expect(told(hand)).toMatchObject({ path: "prefill-only", outcome: "client_cancel", bytesOut: 0 });
  });
});

describe("keep-alive comments are counted, and what follows them", () => {
  const every = { timeouts: { keepAliveMs: 100 } };
  const terminal = { ...PREFILLED, choices: [{ ...PREFILLED.choices[0]!, finish_reason: "stop" }] };
  const play: [what: string, (hand: HandRouter) => void][] = [
    [
      "a stream",
      ({ at }) => {
        at("p1").whole(nixlAnswer());
        void settled().then(() =>
          at("d1")
            .head()
            .push(ROLE, say("hi"), finish() + DONE)
            .end(),
        );
      },
    ],
    ["an answer of prefill's alone", ({ at }) => at("p1").json(terminal)],
    ["a failure", ({ at }) => at("p1").json({ error: { message: "full" } }, 503)],
  ];
  test.each(play)("%s", async (_what, answer) => {
    const hand = handRouter({ engine: "vllm" }, every);
    const { response } = hand.ask();
    await hand.clock.advance(100);
    const reading = read(response);
    await hand.clock.advance(100);
    answer(hand);
    const given = await reading;
    expect(given.text).toStartWith(COMMENT + COMMENT);
    expect(given.text).toEndWith(DONE);
    expect(told(hand).bytesOut).toBe(given.bytes);
    expect(told(hand).committedAt > 0).toBe(!told(hand).errorFrame);
  });
});

describe("bytes are bytes, not characters", () => {
  const body = '{"model":"m","input":"é€😀","messages":[{"role":"user","content":"é€😀"}]}';
  const length = new TextEncoder().encode(body).length;

  test.each(["/v1/embeddings", "/v1/chat/completions"])("of bodies and answers of %s", async (path) => {
    const hand = handRouter({ engine: "openai", prefill: [], decode: [], workers: WORKERS });
    const { response } = hand.ask({}, { path, body });
    await settled();
    hand.at("w1").json({ model: "m", choices: [{ message: { content: "é€😀" } }] });
    const given = await read(response);
    expect(told(hand)).toMatchObject({ bytesIn: length, bytesOut: given.bytes });
    expect([hand.counter("request_bytes_total"), hand.counter("response_bytes_total")]).toEqual([length, given.bytes]);
  });
});
