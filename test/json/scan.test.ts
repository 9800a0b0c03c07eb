import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { JsonError, scanArrayAt, scanObject, scanObjectAt, scanValue } from "../../src/json/scan.ts";
import { mutatedText, valueText, whitespace, writtenObject } from "./arbitraries.ts";

function errorOf(act: () => unknown): JsonError | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

/** What `JSON.parse` says about a text: the code the scanner owes for it. */
function verdictOf(text: string): JsonError["code"] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? undefined : "not_object";
  } catch {
    return "not_json";
  }
}

describe("what is accepted", () => {
  test("any object that JSON.parse accepts, with each member's exact span", () => {
    fc.assert(
      fc.property(writtenObject, ({ text, members }) => {
        const doc = scanObject(text);
        expect(text[doc.open]).toBe("{");
        expect(text[doc.close]).toBe("}");
        expect(doc.members.map((m) => m.key)).toEqual(members.map((m) => m.key));
        expect(doc.members.map((m) => text.slice(m.valueStart, m.valueEnd))).toEqual(members.map((m) => m.valueText));
        for (const [i, m] of doc.members.entries()) {
          expect(text.startsWith(members[i]!.keyText, m.keyStart)).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("damaged texts are judged exactly as JSON.parse judges them", () => {
    fc.assert(
      fc.property(mutatedText, (text) => {
        expect(errorOf(() => scanObject(text))?.code).toBe(verdictOf(text));
      }),
      { numRuns: 3000 },
    );
  });

  test("any value that is no object is refused as such, and scanValue accepts it", () => {
    fc.assert(
      fc.property(whitespace, valueText, whitespace, (before, value, after) => {
        const text = before + value + after;
        expect(errorOf(() => scanObject(text))?.code).toBe(verdictOf(text));
        expect(scanValue(text)).toEqual({ start: before.length, end: before.length + value.length });
      }),
      { numRuns: 300 },
    );
  });

  const wrong = [
    ["", 0],
    [" ", 1],
    ["{", 1],
    ['{"a"', 4],
    ['{"a":', 5],
    ['{"a":1', 6],
    ['{"a":1,', 7],
    ['{"a":1,}', 7],
    ['{,"a":1}', 1],
    ["{a:1}", 1],
    ["{'a':1}", 1],
    ['{"a":1}x', 7],
    ['{"a":1}{}', 7],
    ['\ufeff{"a":1}', 0],
    ['{"a":1}\u00a0', 7],
    ['{"a":01}', 6],
    ['{"a":+1}', 5],
    ['{"a":.5}', 5],
    ['{"a":1.}', 7],
    ['{"a":1e}', 7],
    ['{"a":-}', 6],
    ['{"a":0x1}', 6],
    ['{"a":NaN}', 5],
    ['{"a":undefined}', 5],
    ['{"a":truE}', 5],
    ['{"a":nulll}', 9],
    ['{"a":[1,]}', 8],
    ['{"a":[1}', 7],
    ['{"a":{"b":1]}', 11],
    ['{"a":"\\x"}', 6],
    ['{"a":"\\u12g4"}', 6],
    ['{"a":"\\u123', 6],
    ['{"a":"\n"}', 6],
    ['{"a":"\u0000"}', 6],
    ['{"a":"open}', 5],
    ['{"a":"open\\"}', 5],
    ['{"a":1}/* c */', 7],
  ] as const;
  for (const [text, position] of wrong) {
    test(`${JSON.stringify(text)} is refused at ${position}`, () => {
      expect(verdictOf(text)).toBe("not_json");
      const error = errorOf(() => scanObject(text));
      expect([error?.code, error?.position]).toEqual(["not_json", position]);
      expect(error?.message).toEndWith(`at position ${position}`);
    });
  }

  // Around the places where the native search takes over from the loop, at first and behind an escape.
  for (const length of [0, 1, 6, 7, 8, 9, 10, 30, 31, 32, 33, 34, 63, 64, 65, 500]) {
    test(`a flaw behind ${length} plain characters of a string is found, and what is valid is not one`, () => {
      const plain = "x".repeat(length);
      for (const tail of ["", "\\n", "\\\\", '\\"', "\\u00e9", "\u007f", "é", "日", "\n", "\u001f", "\\x", "\\u00"]) {
        const text = `{"a":"${plain}${tail}","b":"${plain}${tail}${plain}"}`;
        expect([tail, errorOf(() => scanObject(text))?.code]).toEqual([tail, verdictOf(text)]);
        if (verdictOf(text) === undefined) expect(scanObject(text).members.map((m) => m.key)).toEqual(["a", "b"]);
      }
    });
  }
});

describe("keys", () => {
  test("an escaped key is decoded", () => {
    expect(scanObject('{"\\u006dax_tokens":1,"a\\/b\\"":2}').members.map((m) => m.key)).toEqual(["max_tokens", 'a/b"']);
  });

  test("an escape anywhere in a long key of a nested object is decoded", () => {
    for (let before = 0; before < 80; before++) {
      const name = `${"k".repeat(before)}\n${"k".repeat(50)}`;
      expect(scanObjectAt(JSON.stringify({ [name]: 1 }), 0).members.map((m) => m.key)).toEqual([name]);
    }
  });

  test("lone surrogates, raw or escaped, are kept apart from one another", () => {
    expect(scanObject('{"\\ud800":1,"\udc00":2}').members.map((m) => m.key)).toEqual(["\ud800", "\udc00"]);
  });

  test("duplicates and __proto__ are members like any other", () => {
    expect(scanObject('{"__proto__":{"a":1},"a":1,"a":2}').members.map((m) => m.key)).toEqual(["__proto__", "a", "a"]);
  });
});

describe("depth", () => {
  const nested = (depth: number): string => `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;

  test("512 levels are read, 513 are too deep", () => {
    expect(scanObject(nested(512)).members).toHaveLength(1);
    expect(errorOf(() => scanObject(nested(513)))?.code).toBe("too_deep");
  });

  test("maxDepth counts the outermost object", () => {
    expect(scanObject('{"a":1}', { maxDepth: 1 }).members).toHaveLength(1);
    expect(errorOf(() => scanObject('{"a":{}}', { maxDepth: 1 }))?.code).toBe("too_deep");
    expect(errorOf(() => scanObject("{}", { maxDepth: 0 }))?.code).toBe("too_deep");
  });

  test("a mebibyte of opening brackets or braces is an error, never a crash", () => {
    for (const text of ["[".repeat(1 << 20), `{"a":${"[".repeat(1 << 20)}`, '{"a":'.repeat(1 << 18)]) {
      expect(errorOf(() => scanObject(text))?.code).toBe("too_deep");
      expect(errorOf(() => scanObject(text, { maxDepth: Infinity }))?.code).toBe("not_json");
    }
  });

  test("a million levels are read when the limit allows it", () => {
    expect(scanObject(nested(1_000_000), { maxDepth: 1_000_000 }).members[0]!.valueEnd).toBe(5 + 2 * 999_999);
  });
});

describe("nested values of a scanned text", () => {
  test("members of a nested object and elements of a nested array have their exact spans", () => {
    fc.assert(
      fc.property(
        writtenObject,
        fc.array(fc.tuple(whitespace, valueText, whitespace), { maxLength: 5 }),
        (inner, parts) => {
          const text = `{"o":${inner.text},"a":[${parts.map((part) => part.join("")).join(",")}]}`;
          const doc = scanObject(text);
          const object = scanObjectAt(text, doc.members[0]!.valueStart);
          expect(object.members.map((m) => [m.key, text.slice(m.valueStart, m.valueEnd)])).toEqual(
            inner.members.map((m) => [m.key, m.valueText]),
          );
          expect(object.close + 1).toBe(doc.members[0]!.valueEnd);
          expect(scanArrayAt(text, doc.members[1]!.valueStart).map((s) => text.slice(s.start, s.end))).toEqual(
            parts.map(([, value]) => value),
          );
        },
      ),
      { numRuns: 200 },
    );
  });

  test("a long string ends at its quote whatever number of backslashes is before it", () => {
    for (let run = 0; run < 9; run++) {
      const value = JSON.stringify(`${"x".repeat(40)}${"\\".repeat(run)}"${"\\".repeat(run)}`);
      const text = `[{"a":${value},"b":"${"y".repeat(40)}"}]`;
      expect(scanObjectAt(text, 1).members.map((m) => text.slice(m.valueStart, m.valueEnd))[0]).toBe(value);
    }
  });

  test("something else at the position is an error", () => {
    expect(errorOf(() => scanObjectAt('{"a":[]}', 5))?.code).toBe("not_object");
    expect(errorOf(() => scanArrayAt('{"a":{}}', 5))?.code).toBe("not_json");
  });

  test("a text that was never valid ends in an error, not in a loop", () => {
    for (const text of ['{"a', `{"a":"${"x".repeat(99)}`, `{"a":"${"x".repeat(99)}\\"`, '{"a":1', '{"a":[1']) {
      expect(errorOf(() => scanObjectAt(text, 0))?.code).toBe("not_json");
    }
    expect(errorOf(() => scanArrayAt("[1", 0))?.code).toBe("not_json");
  });
});

describe("32 MiB", () => {
  // The slowest of these takes about 0.15 s alone; quadratic work would take minutes.
  const BOUND_MS = 5_000;
  const SIZE = 32 << 20;
  const bodies: Record<string, () => string> = {
    "one long string": () => `{"a":"${"x".repeat(SIZE)}"}`,
    "one long string beyond Latin-1": () => `{"a":"${"日".repeat(SIZE)}"}`,
    "nothing but escapes": () => `{"a":"${"\\\\".repeat(SIZE / 2)}"}`,
    "quotes far apart, one backslash at the end": () => `{"a":[${`"${"x".repeat(60)}",`.repeat(SIZE / 64)}"\\n"]}`,
    "pretty-printed": () => `{"a":[\n${`  "${"x".repeat(60)}",\n`.repeat(SIZE / 66)}  1\n]}`,
    "many small values": () => `{"a":[${"1,".repeat(SIZE / 2)}1]}`,
    "one number": () => `{"a":${"1".repeat(SIZE)}}`,
    whitespace: () => `{"a":${" ".repeat(SIZE)}1}`,
  };
  for (const [name, make] of Object.entries(bodies)) {
    test(`${name} is scanned in bounded time`, () => {
      const text = make();
      const before = performance.now();
      expect(scanObject(text).members).toHaveLength(1);
      expect(performance.now() - before).toBeLessThan(BOUND_MS);
    });
  }

  test("each message of a long conversation is read in time linear in its own size", () => {
    const message = `{"role":"user","content":"${"x".repeat(200)}"}`;
    const text = `{"messages":[${`${message},`.repeat(20_000)}${message}]}`;
    const before = performance.now();
    const spans = scanArrayAt(text, scanObject(text).members[0]!.valueStart);
    for (const span of spans) expect(scanObjectAt(text, span.start).close).toBe(span.end - 1);
    expect(spans).toHaveLength(20_001);
    expect(performance.now() - before).toBeLessThan(BOUND_MS);
  });
});
