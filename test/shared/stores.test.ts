import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { openRedisStore } from "../../src/runtime/redis-store.ts";
import { MemoryStore } from "../../src/shared/memory-store.ts";
import type { SharedStore } from "../../src/shared/store.ts";
import { RedisServer, SERVER } from "./redis-server.ts";
import { storePromises } from "./stores.ts";

storePromises("memory", () => new MemoryStore());

const PASSWORD = "store password \" with 'quotes'";

// Without a server there is nothing to test; in CI that is a failure, not a reason to be quiet.
if (SERVER === undefined) {
  console.error(
    "\n*** NOT TESTED: the shared store on Redis. Install redis-server (Debian: apt-get install redis-server). ***\n",
  );
  test.if(process.env.CI !== undefined)("a redis-server is installed", () => expect(SERVER).toBeDefined());
} else {
  const name = SERVER;
  describe(name, () => {
    let server: RedisServer;
    const stores: SharedStore[] = [];
    const open = (password = PASSWORD) => {
      const store = openRedisStore({ url: server.url, password });
      stores.push(store);
      return store;
    };

    beforeAll(async () => {
      server = await RedisServer.start(PASSWORD);
    });

    afterAll(async () => {
      for (const store of stores) await store.close?.();
      await server?.stop();
    });

    storePromises(name, () => open());

    test("a wrong password is an error of the exchange, soon, and nothing worse", async () => {
      const store = open("wrong");
      const since = performance.now();
      await expect(store.exchange("t", [], 0)).rejects.toThrow();
      expect(performance.now() - since).toBeLessThan(4_500);
    });

    test("a server that dies and comes back is reached again by itself, with none of what it had", async () => {
      const store = open();
      const record = { key: "load:a", text: "before", ttlMs: 60_000 };
      const { cursor } = await store.exchange("again", [record], 0);
      await server.down();
      await expect(store.exchange("again", [], cursor)).rejects.toThrow();
      await server.up();
      let back: Awaited<ReturnType<SharedStore["exchange"]>> | undefined;
      const since = performance.now();
      while (back === undefined && performance.now() - since < 5_000) {
        back = await store.exchange("again", [{ ...record, text: "after" }], cursor).catch(() => undefined);
        await Bun.sleep(50);
      }
      expect(back?.records.map(({ text }) => text)).toEqual(["after"]);
      expect(back!.cursor).toBeGreaterThan(cursor);
    }, 20_000);

    test("one that hangs costs an exchange two seconds, not more", async () => {
      const store = open();
      await store.exchange("hang", [], 0);
      server.signal("SIGSTOP");
      try {
        const since = performance.now();
        await expect(store.exchange("hang", [], 0)).rejects.toThrow();
        expect(performance.now() - since).toBeLessThan(3_500);
      } finally {
        server.signal("SIGCONT");
      }
    }, 20_000);
  });
}
