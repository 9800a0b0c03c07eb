import type { Failure } from "../errors/failure.ts";
import { findMember, readScalar } from "../json/member.ts";
import { countElementsAt, eachElement, type JsonObject, scanArrayAt, scanObjectAt } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import type { GenerationRequest } from "./dialect.ts";
import { badRequest } from "./failures.ts";

/** What `/generate` may carry its prompts in, in the order in which the engine looks for them. */
const GENERATE_PROMPTS = ["text", "input_ids", "input_embeds"] as const;

/** The prompts of one request: how many, and the member that holds them. */
export interface Prompts {
  /** 0: an empty list, which no engine can answer. */
  count: number;
  param: string;
}

/**
 * How many prompts a body has. A string is one, a list of strings as many as it has; a flat list of integers is one prompt in
 * token ids, a list of lists as many as it has. `input_embeds` are a level deeper: a list of lists is one prompt.
 * Nothing is parsed: prompts are the big members, so only the first characters decide and a batch is measured.
 * A shape that is none of these counts as one: the engine's own message about it is better than ours.
 */
export function countPrompts(api: Api, doc: JsonObject): Prompts {
  if (api === "completions") {
    const param = isGiven(doc, "prompt") || !isGiven(doc, "prompt_embeds") ? "prompt" : "prompt_embeds";
    return { count: countIn(doc, param, false), param };
  }
  if (api === "generate") {
    for (const param of GENERATE_PROMPTS) {
      if (!isGiven(doc, param)) continue;
      return { count: countIn(doc, param, param === "input_embeds"), param };
    }
    return { count: 1, param: "text" };
  }
  return { count: 1, param: api === "responses" ? "input" : "messages" };
}

/** JSON text of the one prompt that a `prompt` of completions wraps in a list; undefined when it is no such list. */
export function onlyPrompt(doc: JsonObject): string | undefined {
  const member = findMember(doc, "prompt");
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== 0x5b) return undefined;
  const opening = doc.text.charCodeAt(behindBracket(doc.text, member.valueStart));
  if (opening !== 0x22 && opening !== 0x5b) return undefined;
  const prompts = scanArrayAt(doc.text, member.valueStart, 2);
  return prompts.length === 1 ? doc.text.slice(prompts[0]!.start, prompts[0]!.end) : undefined;
}

/**
 * How many samples each prompt asks for: `n`, for `/generate` the greatest `sampling_params.n`. Numbers in strings count,
 * since the engines read them as numbers; anything else is 1 and left to the engine.
 */
export function countSamples(api: Api, doc: JsonObject): number {
  if (api === "chat" || api === "completions") return countOf(readScalar(doc, "n"));
  if (api !== "generate") return 1;
  const member = findMember(doc, "sampling_params");
  if (member === undefined) return 1;
  const first = doc.text.charCodeAt(member.valueStart);
  if (first === 0x7b) return samplesAt(doc.text, member.valueStart);
  if (first !== 0x5b) return 1;
  let most = 1;
  eachElement(doc.text, member.valueStart, (start) => {
    if (doc.text.charCodeAt(start) === 0x7b) most = Math.max(most, samplesAt(doc.text, start));
    return true;
  });
  return most;
}

/**
 * What no split can give, however many parts a request is cut into (`fanout/`): an answer to no prompt, and the best of more samples than
 * are asked for, which only an engine that has them all can choose.
 *
 * @returns a 400 naming the member, or undefined
 */
export function refuseSequences({ api, doc }: GenerationRequest): Failure | undefined {
  const prompts = countPrompts(api, doc);
  if (prompts.count === 0) return badRequest(prompts.param, `"${prompts.param}" is an empty list, expected a prompt`);
  if (api === "completions" && isGiven(doc, "prompt") && isGiven(doc, "prompt_embeds")) {
    return badRequest(
      "prompt_embeds",
      '"prompt" and "prompt_embeds" cannot be answered together with separated prefill and decode',
    );
  }
  const samples = countSamples(api, doc);
  const best = countOf(readScalar(doc, "best_of"));
  if (best > samples) {
    return badRequest("best_of", `"best_of" is ${best}, but decode gives ${samples} to choose from`);
  }
  return undefined;
}

/** Present and not null. */
function isGiven(doc: JsonObject, key: string): boolean {
  const member = findMember(doc, key);
  return member !== undefined && doc.text.charCodeAt(member.valueStart) !== 0x6e;
}

function countIn(doc: JsonObject, key: string, nested: boolean): number {
  const member = findMember(doc, key);
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== 0x5b) return 1;
  const { text } = doc;
  const first = behindBracket(text, member.valueStart);
  const opening = text.charCodeAt(first);
  if (opening === 0x5d) return 0;
  if (opening === 0x22) return countElementsAt(text, member.valueStart);
  if (opening !== 0x5b) return 1;
  if (nested && text.charCodeAt(behindBracket(text, first)) !== 0x5b) return 1;
  return countElementsAt(text, member.valueStart);
}

/** At the first character of an array's content (or its `]`). */
function behindBracket(text: string, open: number): number {
  let at = open + 1;
  while (text.charCodeAt(at) <= 0x20) at++;
  return at;
}

function samplesAt(text: string, open: number): number {
  return countOf(readScalar(scanObjectAt(text, open), "n"));
}

/** At least one: what engines refuse (0, a negative, no number) is theirs to refuse. */
function countOf(value: unknown): number {
  const count = typeof value === "number" ? value : typeof value === "string" ? Number(value) : 1;
  return Number.isNaN(count) ? 1 : Math.max(count, 1);
}
