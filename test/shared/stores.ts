import { describe, expect, test } from "bun:test";
import type { SharedStore } from "../../src/shared/store.ts";

/** What every store promises, whatever it is made of. `fresh` gives topics that nobody has used. */
export function storePromises(name: string, open: () => SharedStore | Promise<SharedStore>): void {
  let topics = 0;
  const fresh = () => `model/{pool} ${name} ${topics++} ${Math.random()}`;
  const load = (router: string, text = "x", ttlMs = 15_000) => ({ key: `load:${router}`, text, ttlMs });

  describe(`${name} keeps what every store promises`, () => {
    test("what one writes the others read once, with its age; then only what has changed", async () => {
      const store = await open();
      const topic = fresh();
      const first = await store.exchange(topic, [load("a", "one"), { key: "marks:a", text: "m", ttlMs: 60_000 }], 0);
      expect(first.records.map(({ key }) => key).sort()).toEqual(["load:a", "marks:a"]);
      const other = await store.exchange(topic, [load("b", "zwei ü €\n🚀")], 0);
      expect(other.records.map(({ key, text }) => [key, text]).sort()).toEqual([
        ["load:a", "one"],
        ["load:b", "zwei ü €\n🚀"],
        ["marks:a", "m"],
      ]);
      for (const { ageMs } of other.records) expect(ageMs).toBeWithin(0, 2_000);
      const again = await store.exchange(topic, [], first.cursor);
      expect(again.records.map(({ key }) => key)).toEqual(["load:b"]);
      expect((await store.exchange(topic, [], again.cursor)).records).toEqual([]);
      await store.exchange(topic, [load("a", "two")], again.cursor);
      expect((await store.exchange(topic, [], again.cursor)).records.map(({ text }) => text)).toEqual(["two"]);
    });

    test("topics know nothing of each other", async () => {
      const store = await open();
      await store.exchange(fresh(), [load("a")], 0);
      expect((await store.exchange(fresh(), [], 0)).records).toEqual([]);
    });

    test("what nobody renews is gone after its time", async () => {
      const store = await open();
      const topic = fresh();
      await store.exchange(topic, [load("dead", "x", 50), load("alive", "y", 15_000)], 0);
      await Bun.sleep(80);
      expect((await store.exchange(topic, [], 0)).records.map(({ key }) => key)).toEqual(["load:alive"]);
    });

    test("a cursor that is ahead of the store, as after a restart, gets everything", async () => {
      const store = await open();
      const topic = fresh();
      const { cursor } = await store.exchange(topic, [load("a")], 0);
      expect((await store.exchange(topic, [], cursor + 1_000_000)).records).toHaveLength(1);
    });

    test("fifty routers write at once, and all of it is there", async () => {
      const store = await open();
      const topic = fresh();
      await Promise.all(Array.from({ length: 50 }, (_, n) => store.exchange(topic, [load(`r${n}`, `t${n}`)], 0)));
      const { records } = await store.exchange(topic, [], 0);
      expect(new Set(records.map(({ text }) => text)).size).toBe(50);
    });

    test("a text that is no report of a router, for its length, is not kept", async () => {
      const store = await open();
      const topic = fresh();
      await store.exchange(topic, [load("a", "x".repeat(200_000)), load("b")], 0);
      expect((await store.exchange(topic, [], 0)).records.map(({ key }) => key)).toEqual(["load:b"]);
    });
  });
}
