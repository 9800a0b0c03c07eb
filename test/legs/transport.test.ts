import { describe, expect, test } from "bun:test";
import { faultBeforeHeaders } from "../../src/legs/transport.ts";

function withCode(code: string, message = "failed", cause?: unknown): Error {
  return Object.assign(new Error(message, cause === undefined ? undefined : { cause }), { code });
}

describe("an error before headers counts as refused only where nothing can have been sent", () => {
  const refused: [string, unknown][] = [
    ["Bun", withCode("ConnectionRefused", "Unable to connect. Is the computer able to access the url?")],
    ["Node", new TypeError("fetch failed", { cause: withCode("ECONNREFUSED") })],
    ["Node, two addresses", new TypeError("fetch failed", { cause: new AggregateError([withCode("ECONNREFUSED")]) })],
    [
      "Deno",
      new TypeError(
        "error sending request: client error (Connect): tcp connect error: Connection refused (os error 111)",
      ),
    ],
    ["a name that does not resolve", withCode("ENOTFOUND")],
    ["Deno, a name", new TypeError("error sending request: dns error: failed to lookup address information")],
    ["no route", withCode("EHOSTUNREACH")],
  ];
  test.each(refused)("%s: refused", (_, error) => {
    expect(faultBeforeHeaders(error)).toBe("refused");
  });

  const sent: [string, unknown][] = [
    ["a reset", withCode("ECONNRESET", "The socket connection was closed unexpectedly")],
    [
      "Node, other side closed",
      new TypeError("fetch failed", { cause: withCode("UND_ERR_SOCKET", "other side closed") }),
    ],
    ["workerd, which has one text for both", new Error("Network connection lost.")],
    ["an error of no known kind", "boom"],
    ["a cause that is the error itself", selfCaused()],
  ];
  test.each(sent)("%s: counts as sent", (_, error) => {
    expect(faultBeforeHeaders(error)).toBe("reset");
  });
});

function selfCaused(): Error {
  const error = new Error("loop");
  error.cause = error;
  return error;
}
