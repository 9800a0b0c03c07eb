import { afterEach, expect, test } from "bun:test";
import { connect } from "node:net";
import type { ClientSource } from "../../src/attempt/answer.ts";
import { bunStream } from "../../src/runtime/bun-stream.ts";

const encoder = new TextEncoder();
const stops: (() => void)[] = [];

afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** Serves `source` once; `left` counts how often its leaving was told. */
function serve(source: ClientSource): { url: string; port: number; left: () => number } {
  let left = 0;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(bunStream(source, () => left++)),
  });
  stops.push(() => server.stop(true));
  return { url: server.url.href, port: server.port!, left: () => left };
}

async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; i < 400 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(holds()).toBe(true);
}

test.each(["promises", "callbacks"])("blocks that are there at once come whole and in order (%s)", async (how) => {
  let given = 0;
  const block = () => (given < 10_000 ? encoder.encode(`${given++},`) : undefined);
  const source: ClientSource = { next: async () => block() };
  if (how === "callbacks") source.pull = (taker) => taker.take(block());
  const { url, left } = serve(source);
  expect(await (await fetch(url)).text()).toBe(Array.from({ length: 10_000 }, (_, i) => `${i},`).join(""));
  expect(left()).toBe(0);
});

test.each([
  ["next rejects", (): ClientSource => ({ next: once(() => Promise.reject(new Error("a bug"))) })],
  [
    "pull throws",
    (): ClientSource => {
      let pulled = 0;
      return {
        next: () => Promise.resolve(undefined),
        pull: (taker) => {
          if (pulled++ > 0) throw new Error("a bug");
          setImmediate(() => taker.take(encoder.encode("first")));
        },
      };
    },
  ],
])("a source that fails ends the response, not well, and is told: %s", async (_, make) => {
  const { url, left } = serve(make());
  const outcome = await Promise.race([
    fetch(url)
      .then((response) => response.text())
      .then(
        () => "whole",
        () => "broken",
      ),
    new Promise((resolve) => setTimeout(resolve, 2_000, "hangs")),
  ]);
  expect([outcome, left()]).toEqual(["broken", 1]);
});

function once(then: () => Promise<Uint8Array | undefined>): () => Promise<Uint8Array | undefined> {
  let first = true;
  return () => {
    if (!first) return then();
    first = false;
    return Promise.resolve(encoder.encode("first"));
  };
}

test.each([16, 240, 256, 16_384])("a client that does not read stops the source, blocks of %p bytes", async (size) => {
  const block = new Uint8Array(size).fill(0x61);
  let pulled = 0;
  const { port, left } = serve({
    next: () => new Promise(() => {}),
    pull: (taker) =>
      setImmediate(() => {
        // As a socket hands events over: many in one turn of the event loop.
        pulled += size;
        taker.take(block);
      }),
  });
  const socket = connect({ host: "127.0.0.1", port });
  socket.pause();
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  let before = -1;
  for (let same = 0; same < 3; ) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    same = pulled === before && pulled > 0 ? same + 1 : 0;
    before = pulled;
    expect(pulled).toBeLessThan(32_000_000);
  }
  socket.destroy();
  await until(() => left() === 1);
});
