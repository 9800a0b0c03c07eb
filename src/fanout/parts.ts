import { asksInputLogprobs } from "../engines/asks.ts";
import type { GenerationRequest } from "../engines/dialect.ts";
import { badRequest } from "../engines/failures.ts";
import { countPrompts, countSamples } from "../engines/sequences.ts";
import type { Failure } from "../errors/failure.ts";
import { findMember, hasMember, rawValue } from "../json/member.ts";
import { type JsonObject, scanArrayAt, scanObject } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import { sampleSeed } from "./sample-seed.ts";

/** One sequence of a request that asks for several, as a request of its own. */
export interface Part {
  request: GenerationRequest;
  /** JSON text of the prompt that is this part's alone; undefined: the request has one prompt for all parts. */
  prompt: string | undefined;
}

/** A request as its sequences. Part `p * samples + s` is sample `s` of prompt `p`: the order in which engines number choices. */
export interface Parts {
  parts: readonly Part[];
  samples: number;
}

/** Members of `/generate` that an engine reads per prompt when they are lists (SGLang, batches). */
const PER_PROMPT = [
  "return_logprob",
  "logprob_start_len",
  "top_logprobs_num",
  "token_ids_logprob",
  "return_hidden_states",
  "lora_path",
  "custom_logit_processor",
  "extra_key",
] as const;

/** The same, but a list may be shorter: the prompts behind its end have none. */
const MEDIA = ["image_data", "video_data", "audio_data"] as const;

const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;
/** More parts than any `limits.fanout` makes sense of; a list that is longer, of whatever, does not fit the prompts anyway. */
const MOST_ELEMENTS = 65_536;
const DROPPED: ReadonlySet<string> = new Set(["best_of"]);

/**
 * A request that asks for several sequences (`n`, a list of prompts), cut into requests of one each; undefined when it is one already.
 * A room and a hand-off serve one sequence (contract, "Several answers"), and every part goes its own way, with `n` 1, its own prompt,
 * and the seed the engine would have given that sample. All else stays as the client wrote it.
 * The request must have passed `refuseParts`.
 */
export function partsOf(request: GenerationRequest): Parts | undefined {
  const { api, doc } = request;
  const { count, param } = countPrompts(api, doc);
  const samples = samplesOf(request);
  if (count * samples <= 1) return undefined;
  const prompts = count > 1 ? elementsOf(doc, param) : [undefined];
  const parts: Part[] = [];
  for (const [p, prompt] of prompts.entries()) {
    const at = prompt === undefined ? undefined : p;
    for (let sample = 0; sample < samples; sample++) {
      const text =
        api === "generate" ? generateBody(doc, param, prompt, at, sample) : openAiBody(doc, param, prompt, sample);
      parts.push({ request: partRequest(request, text), prompt });
    }
  }
  return { parts, samples };
}

/**
 * Why a request cannot be cut into parts: more of them than `limit` (`limits.fanout`), or lists that do not match its prompts, which
 * the engine would refuse if it saw them together. A 400 that names the member; undefined for one sequence, and when all is well.
 */
export function refuseParts(request: GenerationRequest, limit: number): Failure | undefined {
  const { api, doc } = request;
  const { count, param } = countPrompts(api, doc);
  const samples = samplesOf(request);
  const parts = count * samples;
  if (parts <= 1) return undefined;
  const member = samples === 1 || count > limit ? param : api === "generate" ? "sampling_params" : "n";
  if (parts > limit) {
    const asked =
      samples === 1 ? `${count} prompts` : count === 1 ? `n ${samples}` : `${count} prompts with n ${samples}`;
    return badRequest(
      member,
      `The request asks for ${asked}, but with separated prefill and decode it may have at most ${limit} parts`,
    );
  }
  return api === "generate" ? refuseUneven(doc, count) : undefined;
}

/** What is no whole number above 1 counts as 1: it is the engine's to refuse. */
function samplesOf({ api, doc }: GenerationRequest): number {
  const samples = countSamples(api, doc);
  return Number.isSafeInteger(samples) && samples > 1 ? samples : 1;
}

function refuseUneven(doc: JsonObject, count: number): Failure | undefined {
  const lists = listOf(doc, "sampling_params");
  const counts = new Set(lists?.map((raw) => (raw.startsWith("{") ? (rawValue(scanObject(raw), "n") ?? "1") : "1")));
  if (counts.size > 1) return badRequest("sampling_params", '"n" differs between the elements of "sampling_params"');
  if (count === 1) return undefined;
  for (const key of ["sampling_params", ...PER_PROMPT]) {
    const length = perPrompt(doc, key)?.length ?? count;
    if (length !== count) return badRequest(key, `"${key}" has ${length} elements, but there are ${count} prompts`);
  }
  return undefined;
}

function openAiBody(doc: JsonObject, param: string, prompt: string | undefined, sample: number): string {
  return splice(doc, {
    drop: DROPPED,
    set: {
      [param]: prompt,
      n: hasMember(doc, "n") ? "1" : undefined,
      seed: sampleSeed(rawValue(doc, "seed"), sample),
    },
  });
}

function generateBody(
  doc: JsonObject,
  param: string,
  prompt: string | undefined,
  at: number | undefined,
  sample: number,
): string {
  const set: Record<string, string | undefined> = { [param]: prompt };
  const drop: string[] = [];
  const sampling = at === undefined ? undefined : listOf(doc, "sampling_params")?.[at];
  set.sampling_params = samplingText(sampling ?? rawValue(doc, "sampling_params"), sample);
  if (at !== undefined) {
    for (const key of PER_PROMPT) set[key] = perPrompt(doc, key)?.[at];
    for (const key of MEDIA) {
      const items = listOf(doc, key);
      if (items === undefined) continue;
      if (at < items.length) set[key] = items[at];
      else drop.push(key);
    }
  }
  return splice(doc, { drop, set });
}

/** `sampling_params` for one sample; a list of one element (its prompts are such a list too) stays a list. */
function samplingText(raw: string | undefined, sample: number): string | undefined {
  if (raw === undefined) return undefined;
  if (raw.charCodeAt(0) === OPEN_BRACKET) {
    const elements = scanArrayAt(raw, 0).map(({ start, end }) => samplingText(raw.slice(start, end), sample));
    return `[${elements.join(",")}]`;
  }
  if (raw.charCodeAt(0) !== OPEN_BRACE) return raw;
  const params = scanObject(raw);
  return splice(params, {
    set: {
      n: hasMember(params, "n") ? "1" : undefined,
      sampling_seed: sampleSeed(rawValue(params, "sampling_seed"), sample),
    },
  });
}

/** A member's elements when the engine would read it per prompt. A flat list of `token_ids_logprob` is one list for all prompts. */
function perPrompt(doc: JsonObject, key: string): readonly string[] | undefined {
  const items = listOf(doc, key);
  if (key === "token_ids_logprob" && items?.some((item) => item.charCodeAt(0) === OPEN_BRACKET) !== true)
    return undefined;
  return items;
}

function listOf(doc: JsonObject, key: string): readonly string[] | undefined {
  const member = findMember(doc, key);
  return member !== undefined && doc.text.charCodeAt(member.valueStart) === OPEN_BRACKET
    ? elementsOf(doc, key)
    : undefined;
}

function elementsOf(doc: JsonObject, key: string): string[] {
  const { text } = doc;
  return scanArrayAt(text, findMember(doc, key)!.valueStart, MOST_ELEMENTS).map(({ start, end }) =>
    text.slice(start, end),
  );
}

function partRequest(request: GenerationRequest, text: string): GenerationRequest {
  // The client's body has passed the limit; what a part adds to it must not.
  const doc = scanObject(text, { maxMembers: Infinity });
  return { ...request, doc, wantsInputLogprobs: asksInputLogprobs(request.api, doc) };
}
