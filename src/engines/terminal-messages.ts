import { findMember, rawValue, readString } from "../json/member.ts";
import { type JsonObject, scanArrayAt, scanObjectAt } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import { jsonString } from "../json/text.ts";
import { namedEvent, objectText } from "./event-text.ts";

/** /v1/messages: `message_start`, each content block with its start, deltas and stop, `message_delta`, `message_stop`. */
export function messagesEvents(doc: JsonObject): string {
  const opened = splice(doc, { set: { content: "[]", stop_reason: "null", stop_sequence: "null" } });
  let out = event("message_start", [["message", opened]]);
  blocksOf(doc).forEach((block, index) => {
    out += blockEvents(block, String(index));
  });
  const delta = objectText([
    ["stop_reason", rawValue(doc, "stop_reason") ?? "null"],
    ["stop_sequence", rawValue(doc, "stop_sequence") ?? "null"],
  ]);
  out += event("message_delta", [
    ["delta", delta],
    ["usage", rawValue(doc, "usage")],
  ]);
  return out + event("message_stop", []);
}

function blocksOf(doc: JsonObject): string[] {
  const member = findMember(doc, "content");
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== 0x5b) return [];
  return scanArrayAt(doc.text, member.valueStart).map(({ start, end }) => doc.text.slice(start, end));
}

function blockEvents(text: string, index: string): string {
  if (!text.startsWith("{")) return "";
  const block = scanObjectAt(text, 0);
  let start = text;
  let deltas = "";
  switch (readString(block, "type")) {
    case "text":
      start = splice(block, { set: { text: '""' } });
      deltas = delta(index, "text_delta", "text", rawValue(block, "text"));
      break;
    case "thinking":
      start = splice(block, { set: { thinking: '""', signature: '""' } });
      deltas = delta(index, "thinking_delta", "thinking", rawValue(block, "thinking"));
      deltas += delta(index, "signature_delta", "signature", rawValue(block, "signature"));
      break;
    case "tool_use":
      start = splice(block, { set: { input: "{}" } });
      deltas = delta(index, "input_json_delta", "partial_json", jsonString(rawValue(block, "input") ?? "{}"));
      break;
  }
  return (
    event("content_block_start", [
      ["index", index],
      ["content_block", start],
    ]) +
    deltas +
    event("content_block_stop", [["index", index]])
  );
}

function delta(index: string, type: string, key: string, raw: string | undefined): string {
  if (raw === undefined || raw === "null" || raw === '""') return "";
  const change = objectText([
    ["type", jsonString(type)],
    [key, raw],
  ]);
  return event("content_block_delta", [
    ["index", index],
    ["delta", change],
  ]);
}

function event(type: string, pairs: readonly (readonly [string, string | undefined])[]): string {
  return namedEvent(type, objectText([["type", jsonString(type)], ...pairs]));
}
