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

/** A stream of small random numbers that decides how a value is written. */
const dice = fc.infiniteStream(fc.nat(63));

function space(roll: () => number): string {
  const at = roll();
  return at < 40 ? "" : at < 56 ? " " : at < 60 ? "\n" : "  \t";
}

function letters(text: string, roll: () => number): string {
  let out = "";
  for (let at = 0; at < text.length; at++) {
    const escaped = `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`;
    out += roll() === 0 ? escaped : JSON.stringify(text[at]).slice(1, -1);
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

/** One event of this value as an engine might send it: any line ends, data over several lines, other fields and comments between. */
export function eventsOf(value: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  const data = fc.oneof(
    {
      weight: 12,
      arbitrary: fc.tuple(value, dice).map(([json, stream]) => print(json, () => stream.next().value ?? 0)),
    },
    { weight: 1, arbitrary: fc.constantFrom("[DONE]", "not json", '"text"', "null", "") },
  );
  const field = fc.constantFrom(
    "",
    "",
    "",
    "event: error",
    "event:error",
    "event: message_stop",
    "event: ping",
    "id: 1",
    ": c",
    ":",
  );
  return fc
    .tuple(data, fc.constantFrom("data:", "data: "), lineEnds, field, fc.boolean())
    .map(([text, prefix, end, other, otherFirst]) => {
      const block = text.split("\n").map((line) => prefix + line);
      if (other !== "") block[otherFirst ? "unshift" : "push"](other);
      return block.join(end) + end + end;
    });
}
