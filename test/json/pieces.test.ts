import { expect, test } from "bun:test";
import fc from "fast-check";
import { Pieces } from "../../src/json/pieces.ts";

test("are the text that they make together", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "grapheme" })), (parts) => {
      const pieces = new Pieces(parts);
      expect(pieces.length).toBe(parts.join("").length);
      expect(String(pieces)).toBe(parts.join(""));
      expect(String(pieces)).toBe(parts.join(""));
    }),
  );
});
