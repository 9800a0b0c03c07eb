import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { ClientSource } from "../../src/attempt/answer.ts";
import { ClientGone, Failure } from "../../src/errors/failure.ts";
import { MergedSource, type MergeEnd } from "../../src/fanout/merged-source.ts";
import type { Api } from "../../src/sse/api.ts";
import { DONE, FRAME, HandMade, lost, ticks } from "./hand-made.ts";

function merge(parts: HandMade[], api: Api = "chat", samples = parts.length) {
  const ends: MergeEnd[] = [];
  const source = new MergedSource({
    api,
    parts: parts.map((part) => ({ call: part.call, source: part })),
    samples,
    ended: (end) => ends.push(end),
  });
  return { source, ends };
}

async function text(source: ClientSource): Promise<string> {
  const decoder = new TextDecoder();
  let all = "";
  for (let bytes = await source.next(); bytes !== undefined; bytes = await source.next()) all += decoder.decode(bytes);
  return all;
}

function chunk(id: string, word: string, more = ""): string {
  return `data: {"id":"${id}","created":${id.length},"model":"m","choices":[{"index":0,"delta":{"content":"${word}"}}]${more}}\n\n`;
}

function usage(id: string, prompt: number, completion: number): string {
  return `data: {"id":"${id}","created":3,"model":"m","choices":[],"usage":{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}}}\n\n`;
}

describe("streams of parts as one stream", () => {
  test("one id, one time, the part's index, one usage, one end mark", async () => {
    const a = new HandMade(chunk("aa", "x"), usage("aa", 5, 1) + DONE, undefined);
    const b = new HandMade(chunk("bbb", "y") + chunk("bbb", "z"), usage("bbb", 5, 2), DONE, undefined);
    const { source, ends } = merge([a, b]);
    expect(await text(source)).toBe(
      chunk("aa", "x") +
        chunk("aa", "y").replace('"index":0', '"index":1') +
        chunk("aa", "z").replace('"index":0', '"index":1') +
        usage("aa", 5, 3).replace('"created":3', '"created":2') +
        DONE,
    );
    expect(ends).toHaveLength(1);
    expect(ends[0]!.failure).toBeUndefined();
  });

  test("an end mark with blanks around it ends nothing but its part", async () => {
    const a = new HandMade(chunk("a", "x"), "data: [DONE] \n\n", undefined);
    const b = new HandMade(chunk("a", "y"), DONE, undefined);
    expect(await text(merge([a, b]).source)).toBe(
      `${chunk("a", "x")}${chunk("a", "y").replace('"index":0', '"index":1')}${DONE}`,
    );
  });

  test("a byte order mark is one at the very beginning only: that of another part would hide its first event", async () => {
    const a = new HandMade(`\ufeff${chunk("a", "x")}`, DONE, undefined);
    const b = new HandMade(`\ufeff${chunk("a", "y")}`, DONE, undefined);
    const { source } = merge([a, b]);
    const blocks: Uint8Array[] = [];
    for (let bytes = await source.next(); bytes !== undefined; bytes = await source.next()) blocks.push(bytes);
    expect(Buffer.concat(blocks).toString()).toBe(
      `\ufeff${chunk("a", "x")}${chunk("a", "y").replace('"index":0', '"index":1')}${DONE}`,
    );
  });

  test("a choice of more members than a client may send passes like any other", async () => {
    const many = Array.from({ length: 70_000 }, (_, n) => `"m${n}":1`).join();
    const large = `data: {"id":"a","choices":[{"index":0,${many}}]}\n\n`;
    const a = new HandMade(large, DONE, undefined);
    const b = new HandMade(chunk("a", "y"), DONE, undefined);
    expect(await text(merge([a, b]).source)).toContain('"m69999":1');
  });

  test("without usage events there is none; comments and unknown members pass", async () => {
    const a = new HandMade(`: alive\n\n${chunk("a", "x", ',"x_id":9223372036854775807')}`, DONE, undefined);
    const b = new HandMade(
      `id: 7\ndata: {"choices":[{"x":1.50,"delta":{"content":"y"}}],"id":"a"}\n\n${DONE}`,
      undefined,
    );
    expect(await text(merge([a, b]).source)).toBe(
      `: alive\n\n${chunk("a", "x", ',"x_id":9223372036854775807')}` +
        `id: 7\ndata: {"choices":[{"x":1.50,"delta":{"content":"y"},"index":1}],"id":"a"}\n\n${DONE}`,
    );
  });

  test("data over several lines is one event still", async () => {
    const a = new HandMade(DONE, undefined);
    const b = new HandMade('data: {"id":"b",\ndata: "choices":[{"index":0}]}\n\n', DONE, undefined);
    expect(await text(merge([a, b]).source)).toBe(`data: {"id":"b", "choices":[{"index":1}]}\n\n${DONE}`);
  });

  test("/generate: each event has the index of its part and keeps its own id", async () => {
    const item = (id: string, more = "") =>
      `data: {"text":"t","meta_info":{"id":"${id}","prompt_tokens":2}${more}}\n\n`;
    const { source, ends } = merge(
      [new HandMade(item("a"), DONE, undefined), new HandMade(item("b", ',"index":0'), DONE, undefined)],
      "generate",
    );
    expect(await text(source)).toBe(item("a", ',"index":0') + item("b", ',"index":1') + DONE);
    expect(ends[0]!.usages.map((data) => JSON.parse(data).meta_info.id)).toEqual(["a", "b"]);
  });

  test("every part's events come once each and in order, however its blocks are cut and whoever is first", async () => {
    const words = fc.array(fc.stringMatching(/^[a-z]{1,3}$/), { maxLength: 6 });
    const cuts = fc.array(fc.boolean(), { minLength: 8, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(words, cuts), { minLength: 2, maxLength: 4 }),
        fc.infiniteStream(fc.nat()),
        async (streams, order) => {
          const all = streams.map(([list], i) => [
            ...list.map((word) => chunk(`p${i}`, word)),
            usage(`p${i}`, 3, list.length),
            DONE,
          ]);
          const blocks = all.map((events, i) => glue(events, streams[i]![1]));
          const parts = streams.map(() => new HandMade());
          const { source } = merge(parts);
          const reading = text(source);
          while (blocks.some((rest) => rest.length > 0)) {
            const open = blocks.map((rest, i) => (rest.length > 0 ? i : -1)).filter((i) => i >= 0);
            const i = open[(order.next().value as number) % open.length]!;
            parts[i]!.add(blocks[i]!.shift());
            if (blocks[i]!.length === 0) parts[i]!.add(undefined);
            if ((order.next().value as number) % 2 === 0) await ticks();
          }
          const events = (await reading).split("\n\n").filter((event) => event !== "");
          expect(events.pop()).toBe("data: [DONE]");
          const read = events.map((event) => JSON.parse(event.slice(6)));
          expect(new Set(read.map((event) => `${event.id} ${event.created}`)).size).toBe(1);
          const last = read.pop();
          const total = streams.reduce((sum, [list]) => sum + list.length, 0);
          expect(last.usage).toEqual({ prompt_tokens: 3, completion_tokens: total, total_tokens: total + 3 });
          streams.forEach(([list], i) => {
            const mine = read.filter((event) => event.choices[0].index === i);
            expect(mine.map((event) => event.choices[0].delta.content)).toEqual(list);
          });
        },
      ),
      { numRuns: 60 },
    );
  });
});

function glue(events: readonly string[], cuts: readonly boolean[]): string[] {
  const blocks: string[] = [];
  events.forEach((event, i) => {
    if (cuts[i] === true || blocks.length === 0) blocks.push(event);
    else blocks[blocks.length - 1] += event;
  });
  return blocks;
}

describe("nothing is read that nobody waits for", () => {
  test("no pull before the client's, and at most one block of each part behind a client that does not read", async () => {
    const many = () => new HandMade(...new Array(50).fill(chunk("a", "x")));
    const parts = [many(), many(), many()];
    const { source } = merge(parts);
    await ticks();
    expect(parts.map(({ pulls }) => pulls)).toEqual([0, 0, 0]);
    await source.next();
    await ticks();
    expect(parts.map(({ pulls }) => pulls)).toEqual([1, 1, 1]);
    await source.next();
    await ticks();
    expect(parts.map(({ pulls }) => pulls)).toEqual([1, 1, 1]);
    await source.next();
    await ticks();
    expect(parts.map(({ pulls }) => pulls)).toEqual([2, 2, 2]);
  });

  test("a part that is silent does not hold up the others", async () => {
    const silent = new HandMade();
    const { source } = merge([silent, new HandMade(chunk("b", "x"), chunk("b", "y"))]);
    await source.next();
    await source.next();
    expect(silent.pulls).toBe(1);
  });
});

describe("the failure of one part is the failure of the whole", () => {
  test("its frame goes out once, then the end mark, and the others are closed in the same tick", async () => {
    const a = new HandMade(chunk("a", "x"));
    const b = new HandMade(chunk("a", "y"));
    const c = new HandMade();
    const { source, ends } = merge([a, b, c]);
    const reading = text(source);
    await ticks();
    b.fail(lost());
    expect(a.stopped).toBeInstanceOf(ClientGone);
    expect(c.stopped).toBeInstanceOf(ClientGone);
    const out = await reading;
    expect(out.endsWith(FRAME + DONE)).toBe(true);
    expect(out.split('"error"')).toHaveLength(2);
    expect(out.split("[DONE]")).toHaveLength(2);
    expect(ends).toHaveLength(1);
    expect(ends[0]!.failure).toMatchObject({ code: "decode_failed" });
    expect(ends[0]!.bytes).toBe(new TextEncoder().encode(out).length);
  });

  test("what the part said before its end goes out before the frame, in the same block too", async () => {
    const a = new HandMade();
    const b = new HandMade();
    const { source } = merge([a, b]);
    const reading = text(source);
    b.call.done(lost());
    b.add(chunk("b", "x") + FRAME + DONE);
    b.add(undefined);
    expect(await reading).toBe(chunk("b", "x").replace('"index":0', '"index":1') + FRAME + DONE);
  });

  test("what another part still has in hand is dropped", async () => {
    const a = new HandMade();
    const b = new HandMade();
    const reading = text(merge([a, b]).source);
    a.add(chunk("a", "x"));
    b.fail(lost());
    expect(await reading).toBe(FRAME + DONE);
  });

  test("two that fail together give one frame", async () => {
    const a = new HandMade();
    const b = new HandMade();
    const { source, ends } = merge([a, b]);
    const reading = text(source);
    a.fail(lost());
    b.fail(lost());
    expect(await reading).toBe(FRAME + DONE);
    expect(ends).toHaveLength(1);
  });

  test("a part that has ended well stays in, and a later failure still fails the whole", async () => {
    const a = new HandMade(chunk("a", "x") + DONE, undefined);
    const b = new HandMade();
    const { source } = merge([a, b]);
    const reading = text(source);
    await ticks();
    b.fail(lost());
    expect(await reading).toBe(chunk("a", "x") + FRAME + DONE);
  });
});

describe("stopped from outside", () => {
  test("a client that has left closes all parts, and nothing more is written", async () => {
    const parts = [new HandMade(chunk("a", "x")), new HandMade()];
    const { source, ends } = merge(parts);
    await source.next();
    const pending = source.next();
    source.stop(new ClientGone());
    expect(await pending).toBeUndefined();
    expect(await source.next()).toBeUndefined();
    expect(parts.every(({ stopped }) => stopped instanceof ClientGone)).toBe(true);
    expect(ends.map(({ failure }) => failure)).toEqual([expect.any(ClientGone)]);
  });

  test("a Failure is said by one part, once", async () => {
    const parts = [new HandMade(), new HandMade(), new HandMade()];
    const { source, ends } = merge(parts);
    const reading = text(source);
    const failure = new Failure("shutting_down", { status: 503, stage: "router", message: "going" });
    source.stop(failure);
    expect(await reading).toBe(FRAME + DONE);
    expect(parts.map(({ call }) => call.outcome === failure)).toEqual([true, false, false]);
    expect(ends[0]!.failure).toBe(failure);
  });

  test("a Failure that finds no part left to fail lets the answer end well", async () => {
    const parts = [new HandMade(chunk("a", "x") + DONE, undefined), new HandMade(chunk("b", "y") + DONE, undefined)];
    const { source, ends } = merge(parts);
    for (const { call } of parts) call.done(undefined);
    source.stop(lost());
    expect((await text(source)).endsWith(DONE)).toBe(true);
    expect(ends[0]!.failure).toBeUndefined();
  });
});
