import { findMember, readString } from "../json/member.ts";
import { JsonError, type JsonObject, scanArrayAt, scanObject, scanObjectAt } from "../json/scan.ts";
import type { FinishReason } from "../prefill/output.ts";
import type { Api } from "../sse/api.ts";

/** An engine's answer as the spans of its members; undefined when it is no whole JSON object. */
export function scanAnswer(text: string): JsonObject | undefined {
  try {
    return scanObject(text);
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}

/** The choices of a chat or completions answer; empty when there is no such list. */
export function choicesOf(doc: JsonObject): JsonObject[] {
  const member = findMember(doc, "choices");
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== 0x5b) return [];
  const choices: JsonObject[] = [];
  for (const { start } of scanArrayAt(doc.text, member.valueStart)) {
    if (doc.text.charCodeAt(start) === 0x7b) choices.push(scanObjectAt(doc.text, start));
  }
  return choices;
}

/** A nested object; undefined when the member is absent or something else. */
export function objectIn(doc: JsonObject, key: string): JsonObject | undefined {
  const member = findMember(doc, key);
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== 0x7b) return undefined;
  return scanObjectAt(doc.text, member.valueStart);
}

/**
 * The engine's own word for how its answer ended (`finish_reason`, `stop_reason`, `status`), undefined when absent or null. Of several
 * choices one that is not at its end decides. Words that are failures are `bufferedFault`'s to find.
 */
export function endingOf(api: Api, doc: JsonObject): string | undefined {
  if (api === "messages") return readString(doc, "stop_reason");
  if (api === "responses") return responseEnding(doc);
  let ending: string | undefined;
  for (const choice of choicesOf(doc)) {
    const word = readString(choice, "finish_reason");
    if (word === undefined || word === "length") return word;
    ending ??= word;
  }
  return ending;
}

/** The heart's finish reason for an engine's word; undefined for no word, and for the word that says "not yet". */
export function finishReasonOf(word: string | undefined): FinishReason | undefined {
  switch (word) {
    case undefined:
    case "not_finished":
    case "in_progress":
    case "queued":
      return undefined;
    case "length":
    case "max_tokens":
    case "max_output_tokens":
    case "incomplete":
      return { kind: "length" };
    case "content_filter":
    case "refusal":
      return { kind: "content_filter" };
    default:
      return { kind: "stop" };
  }
}

function responseEnding(doc: JsonObject): string | undefined {
  const status = readString(doc, "status");
  if (status !== "incomplete") return status;
  const details = objectIn(doc, "incomplete_details");
  return (details === undefined ? undefined : readString(details, "reason")) ?? status;
}
