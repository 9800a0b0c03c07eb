import { describe, expect, test } from "bun:test";
import { deflateSync, gzipSync } from "node:zlib";
import { unpackByWeb } from "../../src/runtime/web-unpack.ts";

const TEXT = '{"choices":[{"index":0,"message":{"content":"Grüße"}}]}';

const formats = new Map([
  ["gzip", "gzip"],
  ["deflate", "deflate"],
]);
const unpacked = unpackByWeb({ formats });

function packed(bytes: Uint8Array<ArrayBuffer>, encoding: string): Response {
  return new Response(bytes, { status: 207, headers: { "content-encoding": encoding, "x-kept": "1" } });
}

describe("unpacking with the web's streams alone", () => {
  test.each([
    ["gzip", gzipSync(TEXT)],
    ["GZIP", gzipSync(TEXT)],
    ["deflate, gzip", gzipSync(deflateSync(TEXT))],
  ])("%s is unpacked, status and headers stay", async (encoding, bytes) => {
    const response = unpacked(packed(new Uint8Array(bytes), encoding));
    expect([response.status, response.headers.get("x-kept")]).toEqual([207, "1"]);
    expect(await response.text()).toBe(TEXT);
  });

  test("what is plain, empty, called by no coding's name, or unpacked by the runtime is the same response", async () => {
    const responses = [
      new Response(TEXT),
      new Response("", { headers: { "content-encoding": "gzip", "content-length": "0" } }),
      ...["identity", "utf-8", "constructor", "br"].map((name) => packed(new TextEncoder().encode(TEXT), name)),
    ];
    const knowing = unpackByWeb({ formats, unpacked: new Set(["br"]) });
    for (const response of responses) {
      expect(knowing(response)).toBe(response);
      await response.text();
    }
  });

  test.each(["zstd", "br", "gzip, zstd", "gzip,gzip,gzip"])(
    "%s is an error that names it, and closes the body",
    async (encoding) => {
      let closed = false;
      const body = new ReadableStream({
        cancel() {
          closed = true;
        },
      });
      const response = unpacked(new Response(body, { headers: { "content-encoding": encoding } }));
      expect([response.status, closed]).toEqual([502, true]);
      expect(await response.text()).toContain(encoding);
    },
  );

  test("cut short, it is an error and no clean end", async () => {
    const whole = gzipSync(Buffer.from(crypto.getRandomValues(new Uint8Array(4_096))));
    const response = unpacked(packed(new Uint8Array(whole.subarray(0, 2_000)), "gzip"));
    expect(await response.text().catch(() => "an error")).toBe("an error");
  });

  test("a bomb is unpacked only as far as it is read, and closing reaches the engine", async () => {
    const bomb = new Uint8Array(gzipSync(Buffer.alloc(256 * 1_048_576)));
    let closed = false;
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (controller) => controller.enqueue(bomb),
      cancel() {
        closed = true;
      },
    });
    const before = process.memoryUsage().rss;
    const reader = unpacked(new Response(body, { headers: { "content-encoding": "gzip" } })).body!.getReader();
    for (let read = 0; read < 1_048_576; ) read += (await reader.read()).value!.length;
    // Room for whatever would be unpacked ahead to be so.
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1_048_576);
    await reader.cancel();
    // Bun's pipe closes its source a turn later.
    await new Promise(setImmediate);
    expect(closed).toBe(true);
  });
});
