import { rawValue } from "../json/member.ts";
import type { JsonObject } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import { choicesOf, objectIn } from "./answer.ts";

/** One value that prefill has and decode's answer (or each of its events) has to be given: a path for `setAt`, and JSON text. */
export interface InputLogprob {
  path: readonly (string | number)[];
  raw: string;
}

const SGLANG_LISTS = ["input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs"] as const;

/** SGLang `/generate`: the prompt's logprobs in `meta_info`, as text, since the lists of a long prompt are megabytes. */
export function sglangInputLogprobs(doc: JsonObject): readonly InputLogprob[] | undefined {
  const meta = objectIn(doc, "meta_info");
  if (meta === undefined) return undefined;
  return found(SGLANG_LISTS.map((key) => entry(meta, key, ["meta_info", key])));
}

/** vLLM: `prompt_logprobs` beside the choices of a chat answer, in the choice of a completion. */
export function vllmInputLogprobs(api: Api, doc: JsonObject): readonly InputLogprob[] | undefined {
  if (api === "chat") return found([entry(doc, "prompt_logprobs", ["prompt_logprobs"])]);
  const choice = choicesOf(doc)[0];
  if (choice === undefined) return undefined;
  return found([entry(choice, "prompt_logprobs", ["choices", 0, "prompt_logprobs"])]);
}

function entry(doc: JsonObject, key: string, path: readonly (string | number)[]): InputLogprob | undefined {
  const raw = rawValue(doc, key);
  return raw === undefined || raw === "null" ? undefined : { path, raw };
}

function found(entries: readonly (InputLogprob | undefined)[]): readonly InputLogprob[] | undefined {
  const present = entries.filter((one) => one !== undefined);
  return present.length === 0 ? undefined : present;
}
