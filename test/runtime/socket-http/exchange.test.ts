import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { AnswerHead } from "../../../src/legs/exchange.ts";
import { unpackedStream } from "../../../src/runtime/bun-unpack.ts";
import { type Carrier, PushedExchange } from "../../../src/runtime/socket-http/exchange.ts";
import type { Unpack } from "../../../src/runtime/unpack.ts";

type Step = "receive" | "large" | "end" | "break" | "read" | "close" | "turn";

const steps = fc.array(
  fc.constantFrom<Step>("receive", "receive", "large", "read", "read", "read", "turn", "turn", "end", "break", "close"),
  { maxLength: 40 },
);

class HandCarrier implements Carrier {
  paused = false;
  abandoned = 0;
  pause(): void {
    this.paused = true;
  }
  resume(): void {
    this.paused = false;
  }
  abandon(): void {
    this.abandoned++;
  }
}

test("whatever comes in whatever order: every byte once and in order, one call back per read, and an end is the engine's own", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (plan) => {
      const told: string[] = [];
      const exchange = new PushedExchange(
        { head: () => told.push("head"), failed: () => told.push("failed") },
        () => undefined,
      );
      const connection = new HandCarrier();
      exchange.carriedBy(connection);
      exchange.begin({ status: 200, headers: new Headers() });
      let sent = "";
      let got = "";
      let over: "ended" | "broken" | "closed" | undefined;
      let pending = 0;
      let inCall = false;
      let ends = 0;
      let failures = 0;
      for (const step of plan) {
        if (step === "turn") await new Promise(setImmediate);
        if ((step === "receive" || step === "large") && over === undefined) {
          const text = `<${sent.length}>`.padEnd(step === "large" ? 70_000 : 0, ".");
          sent += text;
          exchange.receive(Buffer.from(text));
        }
        if (step === "end" && over === undefined) {
          over = "ended";
          exchange.end();
        }
        if (step === "break" && over === undefined) {
          over = "broken";
          exchange.break(new Error("broken"));
        }
        if (step === "close") {
          over ??= "closed";
          exchange.close();
        }
        if (step === "read" && pending === 0) {
          pending++;
          inCall = true;
          exchange.read({
            chunk(bytes) {
              expect(inCall).toBe(false);
              pending--;
              if (bytes === undefined) ends++;
              else got += Buffer.from(bytes).toString();
            },
            cut() {
              expect(inCall).toBe(false);
              pending--;
              failures++;
            },
          });
          inCall = false;
        }
        expect(pending === 0 || pending === 1).toBe(true);
        expect(sent.startsWith(got)).toBe(true);
      }
      await new Promise(setImmediate);
      // Nobody is kept waiting when it is over; otherwise the one who waits has read all there is.
      if (over !== undefined) expect(pending).toBe(0);
      else if (pending === 1) expect([got, connection.paused]).toEqual([sent, false]);
      if (ends > 0) expect([over, got]).toEqual(["ended", sent]);
      if (failures > 0) expect(["broken", "closed"]).toContain(over!);
      expect(connection.abandoned).toBe(over === "closed" ? 1 : 0);
      expect(told).toEqual(["head"]);
    }),
    { numRuns: 2_000 },
  );
});

function begun(unpack: Unpack, headers: Record<string, string>): { exchange: PushedExchange; carrier: HandCarrier } {
  const exchange = new PushedExchange({ head: () => {}, failed: () => {} }, unpack);
  const carrier = new HandCarrier();
  exchange.carriedBy(carrier);
  exchange.begin({ status: 200, headers: new Headers(headers) } satisfies AnswerHead);
  return { exchange, carrier };
}

function chunk(exchange: PushedExchange): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject) => exchange.read({ chunk: resolve, cut: reject }));
}

describe("an answer that came compressed", () => {
  test("without a byte is empty, and not half of something", async () => {
    const text = begun(unpackedStream, { "content-encoding": "gzip" });
    text.exchange.end();
    expect(await text.exchange.text()).toBe("");
    const read = begun(unpackedStream, { "content-encoding": "gzip" });
    const reading = chunk(read.exchange);
    read.exchange.end();
    expect(await reading).toBeUndefined();
  });

  test("by a coding that cannot be unpacked here fails, and its connection is given up", async () => {
    const { exchange, carrier } = begun(
      () => {
        throw new TypeError("no such format");
      },
      { "content-encoding": "gzip" },
    );
    const reading = chunk(exchange).catch((error: unknown) => error);
    exchange.receive(Buffer.from("x"));
    expect(await reading).toBeInstanceOf(TypeError);
    expect(carrier.abandoned).toBe(1);
    expect(await chunk(exchange).catch((error: unknown) => error)).toBeInstanceOf(Error);
  });

  test("by a coding that nobody knows comes as it is", async () => {
    const { exchange } = begun(unpackedStream, { "content-encoding": "rot13" });
    exchange.receive(Buffer.from("a"));
    exchange.receive(Buffer.from("b"));
    exchange.end();
    expect(await exchange.text()).toBe("ab");
  });
});

test("pieces of a byte each stop the engine long before there are as many as bytes may wait", () => {
  const { exchange, carrier } = begun(() => undefined, {});
  let pieces = 0;
  while (!carrier.paused && pieces < 65_536) {
    exchange.receive(Buffer.from("x"));
    pieces++;
  }
  expect(pieces).toBeLessThan(1_000);
});
