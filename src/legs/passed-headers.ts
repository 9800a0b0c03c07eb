import type { AnswerHeaders } from "./exchange.ts";

const NONE: readonly (readonly [string, string])[] = [];

/** `retry-after` and `x-ratelimit-*`: all that a client may see of an engine's headers but its content type (contract section 7). */
export function passedHeaders(headers: AnswerHeaders): readonly (readonly [string, string])[] {
  let passed: (readonly [string, string])[] | undefined;
  headers.forEach((value, name) => {
    if (name !== "retry-after" && !name.startsWith("x-ratelimit-")) return;
    passed ??= [];
    passed.push([name, value]);
  });
  return passed ?? NONE;
}
