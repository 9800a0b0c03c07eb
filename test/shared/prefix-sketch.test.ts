import { describe, expect, test } from "bun:test";
import { PrefixSketch } from "../../src/shared/prefix-sketch.ts";
import { fleetConfig, makeFleet, makeInput, poolConfig, seeded, workerConfig } from "../workers/fixtures.ts";

const pools = Array.from({ length: 6 }, (_, n) =>
  poolConfig(`pool${n}`, { prefill: [1, 2].map((w) => workerConfig(`p${w}-${n}`)), decode: [workerConfig(`d-${n}`)] }),
);
const fleet = makeFleet(fleetConfig({ models: [{ id: "m", aliases: [], adapters: [], pools }] }));
const all = fleet.model("m")!.pools;
const words = (length: number, seed: number) => {
  const random = seeded(seed);
  let text = "";
  while (text.length < length) text += `${Math.floor(random() * 46_656).toString(36)} `;
  return text.slice(0, length);
};

describe("which pool has which beginning", () => {
  test("the next turn of a conversation is known again, as long as what it had before, by pool and worker", () => {
    const sketch = new PrefixSketch(1, false);
    const first = words(9_000, 1);
    sketch.chosen(all[2]!.prefill[1]!, makeInput(first), 0);
    const next = makeInput(first + words(2_000, 2));
    sketch.read(next, 1_000);
    expect(sketch.tokensIn(all[2]!)).toBeWithin(1_900, 2_251);
    expect(sketch.told(all[2]!)?.worker).toBe("p2-2");
    expect(sketch.tokensIn(all[3]!)).toBe(0);
    // Another conversation with another beginning is nobody's.
    sketch.read(makeInput(words(9_000, 3)), 1_000);
    for (const pool of all) expect(sketch.tokensIn(pool)).toBe(0);
  });

  test("a system prompt that many pools have is counted for all, so that nobody travels for it", () => {
    const sketch = new PrefixSketch(1, false);
    const system = words(4_096, 1);
    for (const [n, pool] of all.slice(0, 3).entries()) {
      sketch.chosen(pool.prefill[0]!, makeInput(system + words(3_000, 10 + n)), 0);
    }
    sketch.read(makeInput(system + words(3_000, 20)), 0);
    for (const pool of all) expect(sketch.tokensIn(pool)).toBeWithin(1_000, 1_100);
  });

  test("ten minutes without use, and it is forgotten", () => {
    const sketch = new PrefixSketch(1, false);
    const input = makeInput(words(3_000, 1));
    sketch.chosen(all[0]!.prefill[0]!, input, 0);
    sketch.read(input, 9 * 60_000);
    expect(sketch.tokensIn(all[0]!)).toBeGreaterThan(0);
    sketch.read(input, 11 * 60_000);
    expect(sketch.tokensIn(all[0]!)).toBe(0);
  });

  test("what one learns the other is told, once; with another seed it means nothing", () => {
    const [one, other, stranger] = [new PrefixSketch(7, true), new PrefixSketch(7, true), new PrefixSketch(8, true)];
    const input = makeInput(words(6_000, 1));
    one.chosen(all[1]!.prefill[0]!, input, 0);
    const news = one.news("m/pool1");
    expect([...news.keys()]).toEqual(["p1-1"]);
    expect(one.news("m/pool1").size).toBe(0);
    one.chosen(all[1]!.prefill[0]!, input, 1_000);
    expect(one.news("m/pool1").size).toBe(0);
    for (const sketch of [other, stranger]) {
      for (const [worker, hashes] of news) sketch.learn("m/pool1", worker, hashes, 0);
      sketch.read(input, 1_000);
    }
    expect(other.told(all[1]!)?.worker).toBe("p1-1");
    expect(stranger.told(all[1]!)).toBeUndefined();
  });

  test("a table that is full forgets the oldest, and takes no more room", () => {
    const sketch = new PrefixSketch(1, true);
    const random = seeded(4);
    for (let round = 0; round < 400; round++) {
      const hashes = Array.from({ length: 1_000 }, () => Math.floor(random() * 2 ** 32));
      sketch.learn("m/pool0", "p1-0", hashes, round * 1_100);
    }
    const input = makeInput(words(3_000, 1));
    sketch.chosen(all[0]!.prefill[0]!, input, 400_000);
    sketch.read(input, 400_000);
    expect(sketch.tokensIn(all[0]!)).toBeGreaterThan(700);
  });
});
