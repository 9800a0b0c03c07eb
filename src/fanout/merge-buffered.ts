import { Failure } from "../errors/failure.ts";
import { rawValue } from "../json/member.ts";
import { JsonError, type JsonObject, scanArrayAt, scanObject, scanValue } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import type { Api } from "../sse/api.ts";
import { mergeUsage } from "./merge-usage.ts";
import { choicesAs } from "./relabel.ts";

/**
 * The whole answers of all parts as one answer: the first part's, with the choices of all under the index of their part and the usage of
 * all (`mergeUsage`). For `/generate` the list of answers, as SGLang answers a batch and `n` > 1. Text is moved, never printed again.
 *
 * @param bodies JSON texts, in the parts' order
 * @throws Failure `decode_failed` when one of them is no JSON
 */
export function mergeBuffered(api: Api, bodies: readonly string[], samples: number): string {
  try {
    return api === "generate" ? listOf(bodies) : mergeChoices(bodies.map(scanBody), samples);
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause;
    throw new Failure("decode_failed", {
      status: 502,
      stage: "decode",
      kind: "content",
      message: "The decode worker's answer is not JSON",
      cause,
    });
  }
}

function mergeChoices(docs: readonly JsonObject[], samples: number): string {
  const choices = docs.flatMap((doc, index) => {
    const own = choicesAs(doc, index);
    if (own.length > 0) return own;
    throw new Failure("decode_failed", {
      status: 502,
      stage: "decode",
      kind: "content",
      message: "The decode worker's answer has no choice in it",
    });
  });
  const usages = docs.map((doc) => rawValue(doc, "usage"));
  return splice(docs[0]!, { set: { choices: `[${choices.join(",")}]`, usage: mergeUsage(usages, samples) } });
}

/** A prompt that came in a list of one is answered by a list of one: its elements count. */
function listOf(bodies: readonly string[]): string {
  const items = bodies.flatMap((body) => {
    const { start, end } = scanValue(body);
    if (body[start] !== "[") return [body.slice(start, end)];
    return scanArrayAt(body, start).map((item) => body.slice(item.start, item.end));
  });
  return `[${items.join(",")}]`;
}

function scanBody(body: string): JsonObject {
  return scanObject(body);
}
