import type { Api } from "../sse/api.ts";
import { integerText, isRecord, type Json, type JsonRecord, numberOf } from "./json.ts";
import { chatPrompt, type Prompt, plainPrompts, responsesPrompt } from "./prompt.ts";

export const generationPaths: Readonly<Record<string, Api>> = {
  "/v1/chat/completions": "chat",
  "/v1/completions": "completions",
  "/generate": "generate",
  "/v1/responses": "responses",
  "/v1/messages": "messages",
};

export interface Tool {
  name: string;
  parameters: JsonRecord | undefined;
}

/** A generation request after it was read: one meaning for five APIs. */
export interface Ask {
  api: Api;
  body: JsonRecord;
  model: string | undefined;
  prompts: Prompt[];
  /** Several prompts came as an array, even if it holds only one. */
  batch: boolean;
  n: number;
  stream: boolean;
  includeUsage: boolean;
  maxTokens: number | undefined;
  minTokens: number;
  ignoreEos: boolean;
  stop: string[];
  stopIds: ReadonlySet<number>;
  /** The digits of the seed. Up to 2^63: never a number. */
  seed: string | undefined;
  /** How many alternatives per generated token; undefined = no logprobs. */
  topLogprobs: number | undefined;
  /** Prompt logprobs from that token on, with so many alternatives. */
  inputLogprobs: { start: number; top: number } | undefined;
  echo: boolean;
  tools: Tool[];
  /** `required`, `none`, `auto`, or the name of one function. */
  toolChoice: string;
  reasoning: boolean;
  returnTokenIds: boolean;
}

/** Reads a request's body. Undefined: there is no prompt in it. The engines' own checks come after this. */
export function readAsk(api: Api, body: JsonRecord): Ask | undefined {
  const read = readPrompts(api, body);
  if (read === undefined) return undefined;
  const sampling = api === "generate" && isRecord(body.sampling_params) ? body.sampling_params : body;
  const options = isRecord(body.stream_options) ? body.stream_options : undefined;
  return {
    api,
    body,
    model: typeof body.model === "string" ? body.model : undefined,
    prompts: read.prompts,
    batch: read.batch,
    n: numberOf(sampling.n) ?? 1,
    stream: body.stream === true,
    includeUsage: options?.include_usage === true,
    maxTokens: readLimit(api, body, sampling),
    minTokens: numberOf(sampling.min_tokens) ?? numberOf(sampling.min_new_tokens) ?? 0,
    ignoreEos: sampling.ignore_eos === true,
    stop: readStops(api === "messages" ? sampling.stop_sequences : sampling.stop),
    stopIds: new Set(readNumbers(sampling.stop_token_ids)),
    seed: integerText(sampling.seed) ?? integerText(sampling.sampling_seed),
    topLogprobs: readTopLogprobs(api, body),
    inputLogprobs: readInputLogprobs(api, body),
    echo: body.echo === true,
    tools: readTools(body.tools),
    toolChoice: readToolChoice(body.tool_choice),
    reasoning: readReasoning(body),
    returnTokenIds: body.return_token_ids === true,
  };
}

function readPrompts(api: Api, body: JsonRecord): { prompts: Prompt[]; batch: boolean } | undefined {
  if (api === "chat") {
    return Array.isArray(body.messages) && body.messages.length > 0
      ? { prompts: [chatPrompt(body)], batch: false }
      : undefined;
  }
  if (api === "messages") {
    return Array.isArray(body.messages) && body.messages.length > 0
      ? { prompts: [chatPrompt(body)], batch: false }
      : undefined;
  }
  if (api === "responses") {
    return body.input === undefined || body.input === null
      ? undefined
      : { prompts: [responsesPrompt(body)], batch: false };
  }
  if (api === "completions") return plainPrompts(body.prompt);
  return plainPrompts(body.text ?? body.input_ids);
}

function readLimit(api: Api, body: JsonRecord, sampling: JsonRecord): number | undefined {
  if (api === "generate") return numberOf(sampling.max_new_tokens) ?? 128;
  if (api === "responses") return numberOf(body.max_output_tokens);
  // Seen on a real engine: max_completion_tokens wins. Completions default to 16 tokens.
  if (api === "chat") return numberOf(body.max_completion_tokens) ?? numberOf(body.max_tokens);
  return numberOf(body.max_tokens) ?? (api === "completions" ? 16 : undefined);
}

function readStops(value: Json | undefined): string[] {
  if (typeof value === "string") return value === "" ? [] : [value];
  if (!Array.isArray(value)) return [];
  return value.filter((item): item is string => typeof item === "string" && item !== "");
}

function readNumbers(value: Json | undefined): number[] {
  if (!Array.isArray(value)) return [];
  return value.map(numberOf).filter((item): item is number => item !== undefined);
}

function readTopLogprobs(api: Api, body: JsonRecord): number | undefined {
  if (api === "generate") {
    return body.return_logprob === true ? (numberOf(body.top_logprobs_num) ?? 0) : undefined;
  }
  if (api === "chat") return body.logprobs === true ? (numberOf(body.top_logprobs) ?? 0) : undefined;
  return api === "completions" ? numberOf(body.logprobs) : undefined;
}

function readInputLogprobs(api: Api, body: JsonRecord): Ask["inputLogprobs"] {
  if (api === "generate") {
    const start = numberOf(body.logprob_start_len) ?? -1;
    if (body.return_logprob !== true || start < 0) return undefined;
    return { start, top: numberOf(body.top_logprobs_num) ?? 0 };
  }
  const asked = numberOf(body.prompt_logprobs);
  if (asked !== undefined) return { start: 0, top: asked };
  const logprobs = numberOf(body.logprobs);
  if (api === "completions" && body.echo === true && logprobs !== undefined) return { start: 0, top: logprobs };
  return undefined;
}

function readTools(value: Json | undefined): Tool[] {
  if (!Array.isArray(value)) return [];
  const tools: Tool[] = [];
  for (const item of value) {
    if (!isRecord(item)) continue;
    const declared = isRecord(item.function) ? item.function : item;
    if (typeof declared.name !== "string") continue;
    const schema = declared.parameters ?? declared.input_schema;
    tools.push({ name: declared.name, parameters: isRecord(schema) ? schema : undefined });
  }
  return tools;
}

function readToolChoice(value: Json | undefined): string {
  if (typeof value === "string") return value;
  if (!isRecord(value)) return "auto";
  if (isRecord(value.function) && typeof value.function.name === "string") return value.function.name;
  if (typeof value.name === "string") return value.name;
  return value.type === "any" ? "required" : typeof value.type === "string" ? value.type : "auto";
}

function readReasoning(body: JsonRecord): boolean {
  const template = body.chat_template_kwargs;
  if (isRecord(template) && (template.enable_thinking === true || template.thinking === true)) return true;
  if (isRecord(body.thinking) && body.thinking.type === "enabled") return true;
  if (isRecord(body.reasoning)) return true;
  return typeof body.reasoning_effort === "string" && body.reasoning_effort !== "none";
}
