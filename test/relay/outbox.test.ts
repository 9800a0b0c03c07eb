import { describe, expect, test } from "bun:test";
import { Outbox } from "../../src/relay/outbox.ts";

function outbox(...sizes: number[]): { box: Outbox; blocks: Uint8Array[] } {
  const box = new Outbox();
  const blocks = sizes.map((size, n) => new Uint8Array(size).fill(n));
  for (const block of blocks) box.push(block);
  return { box, blocks };
}

describe("what is ready for the client", () => {
  test("small blocks go out together, in order", () => {
    const { box } = outbox(2, 1, 3);
    expect([...box.take()]).toEqual([0, 0, 1, 2, 2, 2]);
    expect(box.empty).toBe(true);
    expect([box.bytesOut, box.blocksOut]).toEqual([6, 1]);
  });

  test("a large block goes out as it is, alone, and the rest after it", () => {
    const { box, blocks } = outbox(100_000, 2, 1);
    expect(box.take()).toBe(blocks[0]!);
    expect(box.empty).toBe(false);
    expect([...box.take()]).toEqual([1, 1, 2]);
    expect([box.bytesOut, box.blocksOut]).toEqual([100_003, 2]);
  });

  test.each([[[]], [[2, 1, 3]], [[100_000, 2, 1]], [[2, 100_000, 1]], [[100_000, 20_000, 1, 1]], [[100_000]]])(
    "what will have been given is known before it is taken: %j",
    (sizes) => {
      const { box } = outbox(...sizes);
      const given = box.given();
      while (!box.empty) box.take();
      expect(given).toEqual({ bytes: box.bytesOut, blocks: box.blocksOut });
      expect(box.given()).toEqual(given);
    },
  );

  test("at the end whoever waits gets the first of what is left, then may take the others; then there is nothing", () => {
    const { box, blocks } = outbox(100_000, 20_000, 1);
    const taken: (Uint8Array | undefined)[] = [];
    box.await({ take: (bytes) => void taken.push(bytes) });
    box.end();
    while (!box.empty) taken.push(box.take());
    box.await({ take: (bytes) => void taken.push(bytes) });
    box.end();
    expect(taken).toEqual([blocks[0]!, blocks[1]!, blocks[2]!, undefined]);
  });
});
