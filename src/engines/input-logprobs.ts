import { findMember, rawValue, readString } from "../json/member.ts";
import { type JsonObject, scanArrayAt } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import { choicesOf, objectIn } from "./answer.ts";

/** The prompt's logprobs as prefill's answer had them, in pieces of JSON text: the lists of a long prompt are megabytes. */
export interface InputLogprobs {
  /** Members to put where the API has them: in `meta_info` (generate), at the top (chat), in the choice (completions). */
  members: readonly { key: string; raw: string }[];
  /** `echo` with logprobs (completions): what stands in front of decode's own. */
  echo?: EchoedPrompt | undefined;
}

export interface EchoedPrompt {
  /** The prompt's text, where decode was not asked to echo it itself. */
  text: string | undefined;
  /** The elements of each list in the choice's `logprobs`, comma-separated JSON text. */
  lists: ReadonlyMap<string, string>;
  /** How far decode's `text_offset` are from those of the whole text, in characters; 0: they are already (or mean nothing). */
  shift: number;
}

const SGLANG_LISTS = ["input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs"] as const;
const OPEN_BRACKET = 0x5b;

/** SGLang: the lists in `meta_info` of `/generate`; the echoed prompt of completions, whose lists end with prefill's one token. */
export function sglangInputLogprobs(api: Api, doc: JsonObject): InputLogprobs | undefined {
  if (api === "completions") {
    const lists = listsOf(choicesOf(doc)[0], 1);
    // Decode echoes the text by itself, and `text_offset` is -1 everywhere.
    return lists === undefined ? undefined : { members: [], echo: { text: undefined, lists, shift: 0 } };
  }
  const meta = api === "generate" ? objectIn(doc, "meta_info") : undefined;
  return meta === undefined ? undefined : found(SGLANG_LISTS.map((key) => entry(meta, key)));
}

/**
 * vLLM: `prompt_logprobs` beside the choices of a chat answer, in the choice of a completion. An echo was asked of prefill alone and
 * with no token of its own, so its answer is the prompt and nothing else.
 */
export function vllmInputLogprobs(api: Api, doc: JsonObject, echoed: boolean): InputLogprobs | undefined {
  const at = api === "chat" ? doc : choicesOf(doc)[0];
  if (at === undefined) return undefined;
  const members = found([entry(at, "prompt_logprobs")]);
  if (!echoed) return members;
  const lists = listsOf(at, 0);
  if (lists === undefined) return members;
  return { members: members?.members ?? [], echo: { text: readString(at, "text"), lists, shift: lengthOf(at) } };
}

function entry(doc: JsonObject, key: string): { key: string; raw: string } | undefined {
  const raw = rawValue(doc, key);
  return raw === undefined || raw === "null" ? undefined : { key, raw };
}

function found(entries: readonly ({ key: string; raw: string } | undefined)[]): InputLogprobs | undefined {
  const members = entries.filter((one) => one !== undefined);
  return members.length === 0 ? undefined : { members };
}

/** The lists of a choice's `logprobs` without their last `less` elements. */
function listsOf(choice: JsonObject | undefined, less: number): ReadonlyMap<string, string> | undefined {
  const logprobs = choice === undefined ? undefined : objectIn(choice, "logprobs");
  if (logprobs === undefined) return undefined;
  const { text } = logprobs;
  const lists = new Map<string, string>();
  for (const { key, valueStart } of logprobs.members) {
    if (text.charCodeAt(valueStart) !== OPEN_BRACKET) continue;
    const elements = scanArrayAt(text, valueStart);
    const last = elements[elements.length - 1 - less];
    if (last !== undefined) lists.set(key, text.slice(elements[0]!.start, last.end));
  }
  return lists;
}

/** Where the text after the prompt begins as the engine counts: at the end of the prompt's last token, in code points. */
function lengthOf(choice: JsonObject): number {
  const logprobs = objectIn(choice, "logprobs");
  if (logprobs === undefined) return 0;
  const offset = lastOf(logprobs, "text_offset");
  const token = lastOf(logprobs, "tokens");
  return typeof offset === "number" && typeof token === "string" ? offset + [...token].length : 0;
}

function lastOf(doc: JsonObject, key: string): unknown {
  const member = findMember(doc, key);
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== OPEN_BRACKET) return undefined;
  const last = scanArrayAt(doc.text, member.valueStart).at(-1);
  return last === undefined ? undefined : JSON.parse(doc.text.slice(last.start, last.end));
}
