import { expect, test } from "bun:test";
import { RecordHeaders } from "../../../src/runtime/node-http/record-headers.ts";

test("headers are found by their name, several of one name as one list, and nothing else is", () => {
  const headers = new RecordHeaders({ "content-type": "a/b", "x-two": ["a", "b"] });
  expect([headers.get("content-type"), headers.get("x-two"), headers.get("x-none")]).toEqual(["a/b", "a, b", null]);
  expect([headers.has("x-two"), headers.has("toString"), headers.get("__proto__")]).toEqual([true, false, null]);
  const seen: Record<string, string> = {};
  headers.forEach((value, name) => {
    seen[name] = value;
  });
  expect(seen).toEqual({ "content-type": "a/b", "x-two": "a, b" });
});
