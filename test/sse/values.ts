import fc from "fast-check";
import { lineEnds } from "./streams.ts";

// JSON values that decode streams hold, with and without marks, and every legal way to write them down.

const texts = fc.constantFrom(
  "",
  " until",
  "error",
  '"finish_reason":"stop"',
  "[DONE]",
  "event: error\n: c",
  "detail",
  "日本語",
  "response.completed",
  "message_stop",
  // Long enough to be left out of an outline.
  `error: ${"t".repeat(600)}`,
  '"finish_reason":"stop" '.repeat(30),
  "\\".repeat(601),
);
const reasons = fc.oneof(
  fc.constant(null),
  fc.constantFrom("stop", "length", "abort", "error", "error: lost", "cancelled"),
  fc.constantFrom(
    { type: "length", length: 8 },
    { type: "abort", message: "no room", status_code: 500 },
    { error: "x" },
  ),
);
const errors = fc.oneof(
  fc.constantFrom(null, "", "overloaded", {}),
  fc.record({ message: texts, code: fc.constantFrom(503, "x", null) }),
);

function withOptional(required: object, optional: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<object> {
  return fc.record(optional, { requiredKeys: [] }).map((members) => ({ ...required, ...members }));
}

const choice = withOptional(
  { index: 0 },
  { delta: fc.record({ content: texts }), text: texts, logprobs: fc.constant(null), finish_reason: reasons },
);
const openAi = withOptional(
  {},
  {
    choices: fc.array(choice, { maxLength: 2 }),
    error: errors,
    detail: fc.constantFrom(null, "Not Found", [{ loc: ["body"], msg: "bad" }]),
    object: fc.constantFrom("chat.completion.chunk", "error"),
    message: texts,
    usage: fc.constantFrom(null, { prompt_tokens: 3 }),
  },
);
const generate = withOptional(
  {},
  {
    text: texts,
    index: fc.nat(2),
    error: errors,
    meta_info: withOptional({ prompt_tokens: 3 }, { finish_reason: reasons }),
  },
);
const responses = withOptional(
  {},
  {
    type: fc.constantFrom(
      "response.created",
      "response.output_text.delta",
      "response.completed",
      "response.incomplete",
      "response.failed",
      "response.cancelled",
      "response.function_call_arguments.delta",
      "error",
    ),
    delta: texts,
    response: withOptional(
      {},
      { status: fc.constantFrom("completed", "failed"), error: errors, usage: fc.constant({}) },
    ),
    error: errors,
    detail: texts,
  },
);
const messages = withOptional(
  {},
  {
    type: fc.constantFrom("message_start", "content_block_delta", "message_delta", "message_stop", "ping", "error"),
    delta: withOptional({}, { text: texts, stop_reason: reasons }),
    error: errors,
    usage: fc.constantFrom(null, { output_tokens: 2 }),
  },
);

export const valuesByApi = { chat: openAi, completions: openAi, generate, responses, messages };

/** The roll that writes a character as an escape. One such letter makes a block suspicious, so most dice do not have this side. */
const ESCAPE = 64;

/** A stream of small random numbers that decides how a value is written. */
const dice = fc.oneof(
  { weight: 5, arbitrary: fc.infiniteStream(fc.nat(ESCAPE - 1)) },
  { weight: 1, arbitrary: fc.infiniteStream(fc.nat(ESCAPE)) },
);

function space(roll: () => number): string {
  const at = roll();
  return at < 40 ? "" : at < 56 ? " " : at < 60 ? "\n" : "  \t";
}

function letters(text: string, roll: () => number): string {
  let out = "";
  for (let at = 0; at < text.length; at++) {
    const escaped = `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`;
    out += roll() === ESCAPE ? escaped : JSON.stringify(text[at]).slice(1, -1);
  }
  return `"${out}"`;
}

/** JSON in any key order, spacing and escaping. Line feeds stand only where white space may. */
function print(value: unknown, roll: () => number): string {
  const gap = () => space(roll);
  if (Array.isArray(value)) return `[${gap()}${value.map((item) => print(item, roll) + gap()).join(`,${gap()}`)}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value)
      .map(([key, member]) => ({
        at: roll(),
        text: `${letters(key, roll)}${gap()}:${gap()}${print(member, roll)}${gap()}`,
      }))
      .sort((a, b) => a.at - b.at);
    return `{${gap()}${members.map(({ text }) => text).join(`,${gap()}`)}}`;
  }
  return typeof value === "string" ? letters(value, roll) : JSON.stringify(value);
}

/**
 * One event of this value as an engine might send it: any line ends, data over several lines, other fields and comments between; now and then
 * comments alone.
 */
export function eventsOf(value: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  const json = fc.tuple(value, dice).map(([known, rolls]) => print(known, () => rolls.next().value ?? 0));
  const other = fc.constantFrom("[DONE]", "not json", '"text"', "null", "");
  const data = fc.oneof({ weight: 12, arbitrary: json }, { weight: 1, arbitrary: other });
  const field = fc.constantFrom("", "", "", "event: error", "event:error", "event: message_stop", "id: 1", ": c", ":");
  const written = fc
    .tuple(data, fc.constantFrom("data:", "data: "), lineEnds, field, fc.boolean())
    .map(([text, prefix, end, more, first]) => {
      const lines = text.split("\n").map((line) => prefix + line);
      if (more !== "") lines[first ? "unshift" : "push"](more);
      return lines.join(end) + end + end;
    });
  const comments = fc.tuple(fc.constantFrom(":", ": c"), lineEnds).map(([line, end]) => line + end + end);
  return fc.oneof({ weight: 9, arbitrary: written }, { weight: 1, arbitrary: comments });
}
