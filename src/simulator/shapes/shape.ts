import type { Api } from "../../sse/api.ts";
import type { Ask } from "../ask.ts";
import type { OutputToken, Sample } from "../generate.ts";
import { type JsonRecord, printJson } from "../json.ts";
import type { SimulatedEngineName } from "../options.ts";
import { type Counts, countUsage } from "../usage.ts";
import { blockSize } from "../vllm-handoff.ts";
import { createChatShape } from "./chat.ts";
import { createCompletionsShape } from "./completions.ts";
import { createGenerateShape } from "./generate.ts";
import { createMessagesShape } from "./messages.ts";
import { createResponsesShape } from "./responses.ts";

/** Everything an API's chunks are made from. */
export interface Answer {
  engine: SimulatedEngineName;
  ask: Ask;
  samples: readonly Sample[];
  id: string;
  /** Unix seconds. */
  created: number;
  model: string;
  /** Prompt tokens that came out of a cache. */
  cached: number;
  /** An abort inside a 200: what the finish reason says beside "abort". */
  abort: { status: number; message: string } | undefined;
  /** Input logprobs exist only where the prompt was computed. */
  inputLogprobs: boolean;
}

/** How one API writes an answer: events of a stream, or one object. Events are whole, with their blank line. */
export interface Shape {
  /** Before the first token. */
  open(): string[];
  /** Token number `at` of a sample; an API may have nothing to say about it. */
  token(sample: Sample, at: number): string[];
  finish(sample: Sample): string[];
  /** Usage, where the API has it apart. */
  usage(): string[];
  /** The end mark. */
  done(): string[];
  whole(): JsonRecord;
  /** Where a batch is answered by a bare list instead of one object. */
  items?: (() => JsonRecord[]) | undefined;
}

const factories: Record<Api, (answer: Answer) => Shape> = {
  chat: createChatShape,
  completions: createCompletionsShape,
  generate: createGenerateShape,
  responses: createResponsesShape,
  messages: createMessagesShape,
};

export function createShape(answer: Answer): Shape {
  return factories[answer.ask.api](answer);
}

export function dataEvent(value: JsonRecord): string {
  return `data: ${printJson(value)}\n\n`;
}

export function namedEvent(value: JsonRecord): string {
  return `event: ${String(value.type)}\ndata: ${printJson(value)}\n\n`;
}

export function doneEvent(): string[] {
  return ["data: [DONE]\n\n"];
}

export function textOf(sample: Sample, channel: OutputToken["channel"]): string {
  let text = "";
  for (const token of sample.tokens) if (token.channel === channel) text += token.text;
  return text;
}

export function countsOf(answer: Answer): Counts {
  const { ask, samples, cached, engine } = answer;
  if (engine !== "vllm") return countUsage(ask, samples, cached, undefined);
  // Who has not computed the prompt has put none of it into a cache, and says so (seen on a real decode).
  let created = 0;
  if (answer.inputLogprobs) for (const { tokens } of ask.prompts) created += Math.floor(tokens / blockSize) * blockSize;
  return countUsage(ask, samples, cached, Math.max(0, created - cached));
}
