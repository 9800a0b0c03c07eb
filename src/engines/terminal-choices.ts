import { findMember, rawValue } from "../json/member.ts";
import { type JsonObject, scanArrayAt, scanObjectAt } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import { choicesOf, objectIn } from "./answer.ts";
import { DONE_EVENT, dataEvent, objectText, type Pair } from "./event-text.ts";

/** What every chunk of a stream repeats. */
const REPEATED = ["system_fingerprint", "service_tier"] as const;

const NOT_IN_DELTA = new Set(["role", "content", "tool_calls"]);
const NOT_IN_CONTENT_CHUNK = new Set(["index", "message", "text", "finish_reason", "stop_reason"]);

/** Chat: one chunk with role and everything the message holds, one with the finish reason, usage if asked for, `[DONE]`. */
export function chatEvents(doc: JsonObject, includeUsage: boolean): string {
  return events(doc, "chat.completion.chunk", includeUsage, chatContent, [["delta", "{}"]]);
}

/** Completions: one chunk with the text, one with the finish reason, usage if asked for, `[DONE]`. */
export function completionEvents(doc: JsonObject, includeUsage: boolean): string {
  return events(doc, "text_completion", includeUsage, completionContent, [["text", '""']]);
}

function events(
  doc: JsonObject,
  object: string,
  includeUsage: boolean,
  content: (choice: JsonObject) => readonly Pair[],
  noContent: readonly Pair[],
): string {
  const base: readonly Pair[] = [
    ["id", rawValue(doc, "id")],
    ["object", `"${object}"`],
    ["created", rawValue(doc, "created")],
    ["model", rawValue(doc, "model")],
    ...REPEATED.map((key): Pair => [key, present(doc, key)]),
  ];
  let contents = "";
  let finishes = "";
  choicesOf(doc).forEach((choice, position) => {
    const index: Pair = ["index", rawValue(choice, "index") ?? String(position)];
    const first = [index, ...content(choice), ...furtherMembers(choice), ["finish_reason", "null"] as const];
    const last: Pair[] = [
      index,
      ...noContent,
      ["finish_reason", rawValue(choice, "finish_reason") ?? "null"],
      ["stop_reason", rawValue(choice, "stop_reason")],
    ];
    contents += chunk(base, `[${objectText(first)}]`);
    finishes += chunk(base, `[${objectText(last)}]`);
  });
  const usage = includeUsage ? rawValue(doc, "usage") : undefined;
  const usageChunk = usage === undefined ? "" : chunk(base, "[]", usage);
  return contents + finishes + usageChunk + DONE_EVENT;
}

function chunk(base: readonly Pair[], choices: string, usage?: string): string {
  return dataEvent(objectText([...base, ["choices", choices], ["usage", usage]]));
}

function completionContent(choice: JsonObject): readonly Pair[] {
  return [["text", present(choice, "text") ?? '""']];
}

/** The message as a delta: members that hold something, tool calls with the index that a stream's need. */
function chatContent(choice: JsonObject): readonly Pair[] {
  const message = objectIn(choice, "message");
  if (message === undefined) return [["delta", '{"role":"assistant","content":""}']];
  const calls = toolCalls(message);
  const content = present(message, "content") ?? (calls === undefined ? '""' : undefined);
  const delta: Pair[] = [
    ["role", present(message, "role") ?? '"assistant"'],
    ["content", content],
  ];
  for (const { key } of message.members) {
    const raw = NOT_IN_DELTA.has(key) ? undefined : present(message, key);
    if (raw !== undefined && raw !== "[]") delta.push([key, raw]);
  }
  delta.push(["tool_calls", calls]);
  return [["delta", objectText(delta)]];
}

function toolCalls(message: JsonObject): string | undefined {
  const member = findMember(message, "tool_calls");
  if (member === undefined || message.text.charCodeAt(member.valueStart) !== 0x5b) return undefined;
  const { text } = message;
  const calls = scanArrayAt(text, member.valueStart).map(({ start, end }, index) => {
    if (text.charCodeAt(start) !== 0x7b) return text.slice(start, end);
    // The call as a document of its own, since `splice` gives back the whole text around an object.
    const call = text.slice(start, end);
    return splice(scanObjectAt(call, 0), { set: { index: String(index) } });
  });
  return calls.length === 0 ? undefined : `[${calls.join(",")}]`;
}

/** Logprobs, token ids and what else an engine puts beside its message. */
function furtherMembers(choice: JsonObject): readonly Pair[] {
  const further: Pair[] = [];
  for (const { key } of choice.members) {
    const raw = NOT_IN_CONTENT_CHUNK.has(key) ? undefined : present(choice, key);
    if (raw !== undefined) further.push([key, raw]);
  }
  return further;
}

function present(doc: JsonObject, key: string): string | undefined {
  const raw = rawValue(doc, key);
  return raw === "null" ? undefined : raw;
}
