import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { engineFault } from "../../src/sse/engine-error.ts";
import { createMask, maskAddresses, maskSecrets } from "../../src/telemetry/mask.ts";

describe("masking configured keys", () => {
  test("every occurrence goes, the rest of the text stays", () => {
    const mask = createMask(["sk-one-key", "sk-two"]);
    expect(mask("Invalid key sk-one-key (have sk-two, sk-one-key)")).toBe("Invalid key *** (have ***, ***)");
  });

  test("wherever a message is cut, no beginning of a key is left in it", () => {
    const key = "sk-0123456789-abcdefghij";
    const mask = createMask(["other", key]);
    for (let at = 8_192 - 40; at < 8_192 + 4; at++) {
      for (const character of ["x", "é"]) {
        const front = character.repeat(Math.floor(at / Buffer.byteLength(character)));
        const fault = engineFault(
          JSON.stringify({ error: { message: `${front}${key} and more of it, ${front}` } }),
          500,
        );
        expect(fault.message).toEndWith("…");
        for (let length = 4; length <= key.length; length++) {
          expect(mask(fault.message)).not.toContain(key.slice(0, length));
        }
      }
    }
  });

  test("a text without a key is the same string", () => {
    const text = "The model does not exist";
    expect(createMask(["sk-one-key"])(text)).toBe(text);
    expect(createMask([])(text)).toBe(text);
  });

  test("a key that contains another leaves no rest, in any order of the list", () => {
    for (const secrets of [
      ["abcd", "abcdefgh"],
      ["abcdefgh", "abcd"],
    ]) {
      expect(createMask(secrets)("x abcdefgh y abcd z")).toBe("x *** y *** z");
    }
  });

  test("keys that overlap in the text are masked as one", () => {
    expect(createMask(["abcdef", "defghi"])("1abcdefghi2")).toBe("1***2");
  });

  test("a key is found as it stands in JSON text and in a query string", () => {
    const mask = createMask(['pa"ss\\word', "a+b/c=d"]);
    expect(mask(JSON.stringify({ key: 'pa"ss\\word' }))).toBe('{"key":"***"}');
    expect(mask("GET /?k=a%2Bb%2Fc%3Dd")).toBe("GET /?k=***");
  });

  test("a key of fewer than four characters is masked where it stands alone, and tears no word", () => {
    const mask = createMask(["key", ""]);
    expect(mask("the keyboard took key, monkey")).toBe("the keyboard took ***, monkey");
  });

  test("no secret of four characters or more is left in any text, nor any piece of text lost", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 4, maxLength: 7 });
    const texts = fc.string({ unit: fc.constantFrom("a", "b", "c", " "), maxLength: 60 });
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 4 }), texts, (secrets, text) => {
        const masked = createMask(secrets)(text);
        for (const secret of secrets) expect(masked).not.toContain(secret);
        if (!secrets.some((secret) => text.includes(secret))) expect(masked).toBe(text);
        // What is left, in order, is a subsequence of the text.
        let from = 0;
        for (const piece of masked.split("***")) {
          const at = text.indexOf(piece, from);
          expect(at).toBeGreaterThanOrEqual(from);
          from = at + piece.length;
        }
      }),
      { numRuns: 300 },
    );
  });

  test("a client's own key can be masked for one request", () => {
    expect(maskSecrets("Bearer client-key-1 refused", ["client-key-1"])).toBe("Bearer *** refused");
  });
});

describe("masking what looks like a credential", () => {
  test("user info, keys in queries and bearer tokens go", () => {
    expect(maskAddresses("connect http://u:SECRET1@host:8000/v1 failed")).toBe(
      "connect http://***@host:8000/v1 failed",
    );
    expect(maskAddresses("redis://:SECRET@h, amqp://a:b@c")).toBe("redis://***@h, amqp://***@c");
    expect(maskAddresses("GET /v1/models?api_key=SECRET4&n=1")).toBe("GET /v1/models?api_key=***&n=1");
    expect(maskAddresses('{"authorization":"Bearer SECRET3"}')).toBe('{"authorization":"Bearer ***"}');
  });

  test("a long text is searched in one pass", () => {
    const start = performance.now();
    for (const text of ["a".repeat(200_000), "a://".repeat(50_000), "?key".repeat(50_000), "bearer ".repeat(30_000)]) {
      maskAddresses(`${text}@=`);
    }
    expect(performance.now() - start).toBeLessThan(1000);
  });

  test("ordinary text stays", () => {
    for (const text of ["a@b.example wrote n=1", "http://host:1/path", "max_tokens=5", "the bearer"]) {
      expect(maskAddresses(text)).toBe(text);
    }
  });
});
