import { type Ask, generationPaths } from "./ask.ts";
import { Refusal } from "./engine-error.ts";
import { integerText, isRecord, type JsonRecord, numberOf, parseJson } from "./json.ts";
import type { EngineState } from "./state.ts";

/** The body as an object, or the 400 of an engine that could not read it. */
export function readBody(text: string): JsonRecord {
  let body: unknown;
  try {
    body = parseJson(text);
  } catch (error) {
    throw new Refusal(400, `Request body is not valid JSON: ${error instanceof Error ? error.message : ""}`);
  }
  if (!isRecord(body as JsonRecord)) throw new Refusal(400, "Request body should be a valid dictionary");
  return body as JsonRecord;
}

/** The checks that come before any work. Throws the Refusal the engine would answer. */
export function checkAsk(state: EngineState, ask: Ask): void {
  const { body } = ask;
  const strictNames = state.engine === "vllm" || state.engine === "openai";
  if (strictNames && ask.model !== undefined && !state.names.has(ask.model)) {
    throw new Refusal(404, `The model \`${ask.model}\` does not exist.`, "model");
  }
  checkShape(ask);
  checkSampling(state, ask);
  // SGLang takes the options without a stream; the others refuse them. Null counts as absent everywhere.
  const options = body.stream_options !== undefined && body.stream_options !== null;
  if (state.engine !== "sglang" && options && body.stream !== true) {
    throw new Refusal(400, "Stream options can only be defined when `stream=True`.", "stream_options");
  }
  // An echo alone (`max_tokens` 0) computes one token all the same.
  if (ask.minTokens > 0 && ask.maxTokens !== undefined && ask.minTokens > Math.max(ask.maxTokens, 1)) {
    const name = ask.api === "generate" ? "max_new_tokens" : "max_tokens";
    throw new Refusal(
      400,
      `min_tokens must be less than or equal to ${name}=${ask.maxTokens}, got ${ask.minTokens}.`,
      "min_tokens",
    );
  }
  if (state.engine === "vllm" && ask.stream && (numberOf(body.prompt_logprobs) ?? 0) !== 0) {
    throw new Refusal(400, "`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs");
  }
  if (ask.tools.length === 0 && !["auto", "none"].includes(ask.toolChoice)) {
    throw new Refusal(400, "When using `tool_choice`, `tools` must be set.", "tool_choice");
  }
  if (ask.tools.length > 0 && !["auto", "none", "required"].includes(ask.toolChoice)) {
    const known = ask.tools.some((tool) => tool.name === ask.toolChoice);
    if (!known) throw new Refusal(400, `The tool "${ask.toolChoice}" is not among \`tools\`.`, "tool_choice");
  }
  for (const prompt of ask.prompts) {
    if (prompt.tokens < state.maxModelLen) continue;
    throw new Refusal(
      400,
      `This model's maximum context length is ${state.maxModelLen} tokens. However, your request has ${prompt.tokens} input tokens.`,
      "messages",
    );
  }
}

function checkShape(ask: Ask): void {
  const { body } = ask;
  for (const name of ["stream", "echo", "ignore_eos"]) {
    const value = body[name];
    if (value !== undefined && value !== null && typeof value !== "boolean") {
      throw new Refusal(400, `Input should be a valid boolean: ${name}`, name);
    }
  }
  if (body.model !== undefined && body.model !== null && typeof body.model !== "string") {
    throw new Refusal(400, "Input should be a valid string: model", "model");
  }
  if (body.tools !== undefined && body.tools !== null && !Array.isArray(body.tools)) {
    throw new Refusal(400, "Input should be a valid list: tools", "tools");
  }
  if (ask.api === "messages" && numberOf(body.max_tokens) === undefined) {
    throw new Refusal(400, "Field required: max_tokens", "max_tokens");
  }
  if (ask.api === "responses" && typeof body.previous_response_id === "string") {
    throw new Refusal(404, `Response with id '${body.previous_response_id}' not found.`, "previous_response_id");
  }
}

function checkSampling(state: EngineState, ask: Ask): void {
  const { body } = ask;
  const sampling = ask.api === "generate" && isRecord(body.sampling_params) ? body.sampling_params : body;
  // An echo of the prompt and nothing else (vLLM).
  const echoes = state.engine === "vllm" && ask.api === "completions" && ask.echo;
  for (const name of ["max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"]) {
    integerWithin(sampling, name, echoes ? 0 : 1);
  }
  for (const name of ["min_tokens", "min_new_tokens"]) integerWithin(sampling, name, 0);
  integerWithin(sampling, "n", 1, 128);
  within(sampling, "temperature", 0, state.engine === "openai" ? 2 : Number.POSITIVE_INFINITY);
  within(sampling, "top_p", 0, 1);
  within(sampling, "presence_penalty", -2, 2);
  within(sampling, "frequency_penalty", -2, 2);
  checkSeed(sampling);
  if (ask.api === "chat") {
    integerWithin(body, "top_logprobs", 0, 20);
    if (numberOf(body.top_logprobs) !== undefined && body.logprobs !== true) {
      throw new Refusal(400, "when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs");
    }
  } else if (ask.api === "completions") integerWithin(body, "logprobs", 0, 20);
}

/** Legal up to 2^63 − 1; one more is a 400 (seen on a real vLLM). Compared as digits, never as a double. */
function checkSeed(sampling: JsonRecord): void {
  const seed = sampling.seed;
  if (seed === undefined || seed === null) return;
  const digits = integerText(seed);
  if (digits === undefined) throw new Refusal(400, "Input should be a valid integer: seed", "seed");
  const limit = 2n ** 63n;
  if (BigInt(digits) >= limit || BigInt(digits) < -limit) {
    throw new Refusal(400, "Input should be less than or equal to 9223372036854775807: seed", "seed");
  }
}

function integerWithin(body: JsonRecord, name: string, least: number, most = Number.POSITIVE_INFINITY): void {
  const value = body[name];
  if (value === undefined || value === null) return;
  if (integerText(value) === undefined) throw new Refusal(400, `Input should be a valid integer: ${name}`, name);
  within(body, name, least, most);
}

function within(body: JsonRecord, name: string, least: number, most: number): void {
  const value = body[name];
  if (value === undefined || value === null) return;
  const number = numberOf(value);
  if (number === undefined) throw new Refusal(400, `Input should be a valid number: ${name}`, name);
  if (number < least) throw new Refusal(400, `${name} must be at least ${least}, got ${number}.`, name);
  if (number > most) throw new Refusal(400, `${name} must be at most ${most}, got ${number}.`, name);
}

/** What the engine says to a body in which it finds no prompt. */
export function missingPrompt(path: string): Refusal {
  const api = generationPaths[path];
  const names = { chat: "messages", messages: "messages", completions: "prompt", responses: "input", generate: "text" };
  const name = names[api ?? "chat"];
  if (api === "generate") return new Refusal(400, "Either text, input_ids or input_embeds should be provided.", name);
  return new Refusal(400, `Field required: ${name}`, name);
}
