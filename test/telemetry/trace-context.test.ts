import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { newSpanId, newTraceId } from "../../src/telemetry/ids.ts";
import { createRecord, type RequestRecord } from "../../src/telemetry/record.ts";
import {
  beginTrace,
  formatTraceparent,
  isValidBaggage,
  isValidTracestate,
  legTraceparent,
  parseTraceparent,
} from "../../src/telemetry/trace-context.ts";
import { SPAN, TRACE } from "./hand-made.ts";

function begun(headers: Record<string, string>): RequestRecord {
  const record = createRecord(0, 0);
  beginTrace(record, new Headers(headers));
  return record;
}

describe("traceparent", () => {
  test("a valid one is read", () => {
    expect(parseTraceparent(`00-${TRACE}-${SPAN}-01`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true });
    expect(parseTraceparent(`00-${TRACE}-${SPAN}-00`)?.sampled).toBe(false);
    expect(parseTraceparent(`00-${TRACE}-${SPAN}-03`)?.sampled).toBe(true);
    expect(parseTraceparent(`cc-${TRACE}-${SPAN}-01-what-comes-later`)?.traceId).toBe(TRACE);
  });

  test.each([
    ["absent", null],
    ["empty", ""],
    ["garbage", "garbage"],
    ["upper case", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["version ff", `ff-${TRACE}-${SPAN}-01`],
    ["version 00 with more", `00-${TRACE}-${SPAN}-01-x`],
    ["a later version glued on", `01-${TRACE}-${SPAN}-01x`],
    ["trace id of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["span id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["two headers", `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`],
    ["short", `00-${TRACE.slice(1)}-${SPAN}-01`],
  ])("one that is %s is not", (_, header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });

  test("what is formatted can be read again", () => {
    for (const sampled of [true, false]) {
      expect(parseTraceparent(formatTraceparent(TRACE, SPAN, sampled))).toEqual({
        traceId: TRACE,
        spanId: SPAN,
        sampled,
      });
    }
  });

  test("no text makes the reader throw", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(parseTraceparent(text)).toBeUndefined();
      }),
    );
  });
});

describe("beginning a trace", () => {
  test("continues the client's, with state and baggage as they came", () => {
    const record = begun({
      traceparent: `00-${TRACE}-${SPAN}-00`,
      tracestate: "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
      baggage: "userId=alice, serverNode=DF%2028;prop=1",
    });
    expect(record.traceId).toBe(TRACE);
    expect(record.parentSpanId).toBe(SPAN);
    expect(record.sampled).toBe(false);
    expect(record.traceState).toBe("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
    expect(record.baggage).toBe("userId=alice, serverNode=DF%2028;prop=1");
    expect(record.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(record.spanId).not.toBe(SPAN);
  });

  test("keeps baggage that comes without a traceparent", () => {
    const record = begun({ baggage: "only=this" });
    expect(record.baggage).toBe("only=this");
    expect(record.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(record.parentSpanId).toBe("");
    expect(record.sampled).toBe(true);
  });

  test("begins anew after an invalid traceparent, and drops the state that belonged to it", () => {
    const record = begun({ traceparent: "garbage", tracestate: "rojo=1" });
    expect(record.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(record.traceState).toBe("");
    expect(record.sampled).toBe(true);
  });

  test.each(["a=1", " a = 1 ; p ; q = 2 ,b=2", "a=", "a==;p=\t=", "a=%20"])("takes the baggage %j", (baggage) => {
    expect(begun({ baggage }).baggage).toBe(baggage.trim());
  });

  test.each(["a", "=1", "a b=1", "a=1 2", "a=1;", "a=1;p q", 'a="1"', "a=1,,b=2", "a=\xa01"])(
    "drops the baggage %j",
    (baggage) => {
      expect(begun({ baggage }).baggage).toBe("");
    },
  );

  test("blanks without end take no time to speak of", () => {
    const blanks = " ".repeat(8_000);
    const from = performance.now();
    for (let i = 0; i < 20; i++) {
      begun({ baggage: `a=${blanks}"` });
      begun({ traceparent: `00-${TRACE}-${SPAN}-01`, tracestate: `a=1${blanks}${blanks}x` });
    }
    expect(performance.now() - from).toBeLessThan(1_000);
  });

  test("drops state and baggage that are not valid, and only those", () => {
    const record = begun({ traceparent: `00-${TRACE}-${SPAN}-01`, tracestate: "=,,==", baggage: "no value" });
    expect(record.traceId).toBe(TRACE);
    expect(record.traceState).toBe("");
    expect(record.baggage).toBe("");
  });
});

describe("traceparent of a leg", () => {
  test("hangs the leg on its own span, or on the client's where no span of ours will be seen", () => {
    const record = begun({ traceparent: `00-${TRACE}-${SPAN}-01` });
    const leg = newSpanId();
    expect(legTraceparent(record, leg)).toBe(`00-${TRACE}-${leg}-01`);
    expect(legTraceparent(record, "")).toBe(`00-${TRACE}-${SPAN}-01`);
  });

  test("of a new trace is valid either way, and both legs share the trace", () => {
    const record = begun({});
    const [prefill, decode] = [legTraceparent(record, newSpanId()), legTraceparent(record, "")];
    expect(parseTraceparent(prefill)?.traceId).toBe(record.traceId);
    expect(parseTraceparent(decode)).toEqual({ traceId: record.traceId, spanId: record.spanId, sampled: true });
  });
});

describe("tracestate", () => {
  test.each(["a=1", "rojo=1,congo=2", "tenant1@vendor=x", "a=1,,b=2 , c=3", "k/_-*=v v", `a=${"x".repeat(256)}`])(
    "%p is valid",
    (header) => {
      expect(isValidTracestate(header)).toBe(true);
    },
  );

  test.each([
    "",
    ",",
    "a",
    "=1",
    "A=1",
    "a=1,a=2",
    "a=b=c",
    "a=ü",
    `a=${"x".repeat(257)}`,
    Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(","),
  ])("%p is not", (header) => {
    expect(isValidTracestate(header)).toBe(false);
  });
});

describe("baggage", () => {
  test.each(["a=1", "a=", "a=1,b=2", "a = 1 ; p ; q=2 , b=%C3%A9"])("%p is valid", (header) => {
    expect(isValidBaggage(header)).toBe(true);
  });

  test.each(["", "a", "=1", "a=1,", 'a="x"', "a=b c", "a=ü", "a b=1", `a=${"x".repeat(8192)}`])(
    "%p is not",
    (header) => {
      expect(isValidBaggage(header)).toBe(false);
    },
  );

  test("a long header that is almost valid is refused at once", () => {
    const start = performance.now();
    expect(isValidBaggage(`a=1${";p=1 ".repeat(1600)}"`)).toBe(false);
    expect(isValidBaggage(`${"a".repeat(4000)} ${" ".repeat(4000)}`)).toBe(false);
    expect(isValidBaggage(`a=1${" ;".repeat(4000)}`)).toBe(false);
    expect(isValidTracestate(`a=${" ".repeat(8000)}`)).toBe(false);
    expect(performance.now() - start).toBeLessThan(200);
  });
});

describe("ids", () => {
  test("are hex, of their length, and never the same over many batches", () => {
    const ids = new Set<string>();
    for (let i = 0; i < 5000; i++) {
      const [trace, span] = [newTraceId(), newSpanId()];
      expect(trace.length === 32 && span.length === 16 && /^[0-9a-f]+$/.test(trace + span)).toBe(true);
      ids.add(trace).add(span);
    }
    expect(ids.size).toBe(10_000);
  });
});
