import { describe, expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { unpacked } from "../../src/runtime/bun-unpack.ts";

const TEXT = '{"choices":[{"index":0,"message":{"content":"Grüße"}}]}';

function packed(bytes: Uint8Array<ArrayBuffer>, encoding: string): Response {
  return new Response(bytes, { status: 207, headers: { "content-encoding": encoding, "x-kept": "1" } });
}

describe("an answer that came compressed although nobody asked", () => {
  test.each([
    ["gzip", gzipSync(TEXT)],
    ["x-gzip", gzipSync(TEXT)],
    ["GZIP", gzipSync(TEXT)],
    ["deflate", deflateSync(TEXT)],
    ["br", brotliCompressSync(TEXT)],
    ["zstd", zstdCompressSync(TEXT)],
    ["gzip, br", brotliCompressSync(gzipSync(TEXT))],
    ["gzip, identity", gzipSync(TEXT)],
  ])("%s is unpacked, status and headers stay", async (encoding, bytes) => {
    const response = unpacked(packed(new Uint8Array(bytes), encoding));
    expect(await response.text()).toBe(TEXT);
    expect([response.status, response.headers.get("x-kept")]).toEqual([207, "1"]);
  });

  test("without a coding, or with one that nobody knows, it is the same response", () => {
    const plain = new Response(TEXT);
    expect(unpacked(plain)).toBe(plain);
    for (const coding of ["compress", "identity", "constructor", "gzip,".repeat(8_000), "gzip,gzip,gzip"]) {
      const unknown = packed(new TextEncoder().encode(TEXT), coding);
      expect(unpacked(unknown)).toBe(unknown);
    }
  });

  test("of no length it is empty whatever it is called", async () => {
    const headers = { "content-encoding": "gzip", "content-length": "0" };
    expect(await unpacked(new Response("", { headers })).text()).toBe("");
  });

  test("cut short, it is an error and no clean end", async () => {
    const whole = gzipSync(Buffer.from(crypto.getRandomValues(new Uint8Array(4_096))));
    const reader = unpacked(packed(new Uint8Array(whole.subarray(0, 2_000)), "gzip")).body!.getReader();
    let failed = false;
    try {
      while (!(await reader.read()).done);
    } catch {
      failed = true;
    }
    expect(failed).toBe(true);
  });

  test("a bomb is unpacked only as far as it is read", async () => {
    const bomb = new Uint8Array(gzipSync(Buffer.alloc(256 * 1_048_576)));
    const before = process.memoryUsage().rss;
    const reader = unpacked(packed(bomb, "gzip")).body!.getReader();
    for (let read = 0; read < 1_048_576; ) read += (await reader.read()).value!.length;
    // Room for whatever would be unpacked ahead to be so.
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1_048_576);
    await reader.cancel();
  });
});
