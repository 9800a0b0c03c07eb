import type { BaseIssue } from "valibot";
import { nearest } from "./nearest.ts";

/** The largest delay every runtime's timer takes; above it they fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1;

/** A value as an operator would recognise it in his file, at most 60 characters. */
export function show(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value === "object") return "a mapping";
  // A URL with user info holds a password, and messages end up in logs.
  const text = typeof value === "string" ? JSON.stringify(value.replace(/\/\/[^/]*@/, "//…@")) : String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

/** Message of a valibot check: what was wanted, what came. `hint` is added when it has something to say about the value. */
export function wanted(
  what: string,
  hint?: (input: unknown) => string | undefined,
): (issue: BaseIssue<unknown>) => string {
  return function describeIssue(issue: BaseIssue<unknown>): string {
    const more = hint?.(issue.input);
    return `wanted ${what}, got ${show(issue.input)}${more === undefined ? "" : ` (${more})`}`;
  };
}

/** Message of a choice between names, with the nearest of them. */
export function wantedOneOf(names: readonly string[]): (issue: BaseIssue<unknown>) => string {
  return wanted(`one of ${names.join(", ")}`, function suggest(input) {
    const near = typeof input === "string" ? nearest(input, names) : undefined;
    return near === undefined ? undefined : `did you mean "${near}"?`;
  });
}
