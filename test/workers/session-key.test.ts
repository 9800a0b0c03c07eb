import { expect, test } from "bun:test";
import { sessionKey } from "../../src/workers/session-key.ts";

const none = () => null;
const prompt = () => `${"system prompt ".repeat(40)} and the rest`;

test("a session is named by its header, else the other routers' header, else user, else the prompt's first block", () => {
  const headers = new Headers({ "x-session-id": "s1", "x-smg-routing-key": "k1" });
  expect(sessionKey((name) => headers.get(name), "u1", prompt)).toBe("header:s1");
  headers.delete("x-session-id");
  expect(sessionKey((name) => headers.get(name), "u1", prompt)).toBe("header:k1");
  expect(sessionKey(none, "u1", prompt)).toBe("user:u1");
  expect(sessionKey(none, undefined, prompt)).toBe(`prompt:${prompt().slice(0, 256)}`);
});

test("the prompt is not made when something else names the session", () => {
  const fail = () => {
    throw new Error("read");
  };
  expect(sessionKey(none, "u", fail)).toBe("user:u");
});
