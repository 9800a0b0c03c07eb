import { findMember, hasMember, rawValue, readString } from "../json/member.ts";
import { type JsonObject, scanArrayAt, scanObjectAt } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import { jsonString } from "../json/text.ts";
import { namedEvent, objectText, type Pair } from "./event-text.ts";

/** Where a content part stands, as every event about it says. */
type Place = readonly Pair[];

/**
 * /v1/responses: `response.created`, `response.in_progress`, each output item with its parts and their deltas, then
 * `response.completed` (or `.incomplete`) with the whole response. The end of the body is the end; there is no `[DONE]`.
 */
export function responsesEvents(doc: JsonObject): string {
  return new ResponseWriter().write(doc);
}

class ResponseWriter {
  #out = "";
  #sequence = 0;

  write(doc: JsonObject): string {
    const usage = hasMember(doc, "usage") ? "null" : undefined;
    const opened = splice(doc, { set: { status: '"in_progress"', output: "[]", usage } });
    this.#event("response.created", [["response", opened]]);
    this.#event("response.in_progress", [["response", opened]]);
    elementsOf(doc, "output").forEach((item, position) => {
      this.#item(item, String(position));
    });
    const ending = readString(doc, "status") === "incomplete" ? "response.incomplete" : "response.completed";
    this.#event(ending, [["response", doc.text]]);
    return this.#out;
  }

  #item(item: JsonObject, outputIndex: string): void {
    const type = readString(item, "type");
    const at: Place = [
      ["item_id", rawValue(item, "id")],
      ["output_index", outputIndex],
    ];
    const begun = {
      status: hasMember(item, "status") ? '"in_progress"' : undefined,
      content: hasMember(item, "content") ? "[]" : undefined,
      arguments: type === "function_call" ? '""' : undefined,
    };
    this.#event("response.output_item.added", [
      ["output_index", outputIndex],
      ["item", splice(item, { set: begun })],
    ]);
    if (type === "function_call") this.#arguments(item, at);
    elementsOf(item, "content").forEach((part, position) => {
      this.#part(part, [...at, ["content_index", String(position)]]);
    });
    this.#event("response.output_item.done", [
      ["output_index", outputIndex],
      ["item", item.text],
    ]);
  }

  #arguments(item: JsonObject, at: Place): void {
    const text = rawValue(item, "arguments") ?? '""';
    this.#event("response.function_call_arguments.delta", [...at, ["delta", text]]);
    this.#event("response.function_call_arguments.done", [
      ...at,
      ["name", rawValue(item, "name")],
      ["arguments", text],
    ]);
  }

  #part(part: JsonObject, at: Place): void {
    const type = readString(part, "type");
    const key = type === "refusal" ? "refusal" : "text";
    const text = rawValue(part, key);
    const opened = text === undefined ? part.text : splice(part, { set: { [key]: '""' } });
    this.#event("response.content_part.added", [...at, ["part", opened]]);
    if (type !== undefined && text !== undefined) {
      // Only output text has logprobs, and its events must: an absent list is an empty one.
      const raw = rawValue(part, "logprobs");
      const logprobs: Pair = ["logprobs", type === "output_text" ? (raw === "null" ? "[]" : (raw ?? "[]")) : undefined];
      this.#event(`response.${type}.delta`, [...at, ["delta", text], logprobs]);
      this.#event(`response.${type}.done`, [...at, [key, text], logprobs]);
    }
    this.#event("response.content_part.done", [...at, ["part", part.text]]);
  }

  #event(type: string, pairs: readonly Pair[]): void {
    const sequence: Pair = ["sequence_number", String(this.#sequence)];
    this.#sequence += 1;
    this.#out += namedEvent(type, objectText([["type", jsonString(type)], sequence, ...pairs]));
  }
}

/** The objects of a list, each as a document of its own. */
function elementsOf(doc: JsonObject, key: string): JsonObject[] {
  const member = findMember(doc, key);
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== 0x5b) return [];
  const elements: JsonObject[] = [];
  for (const { start, end } of scanArrayAt(doc.text, member.valueStart)) {
    if (doc.text.charCodeAt(start) === 0x7b) elements.push(scanObjectAt(doc.text.slice(start, end), 0));
  }
  return elements;
}
