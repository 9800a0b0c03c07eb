import type { Ask, Tool } from "./ask.ts";
import { isRecord, type Json, type JsonRecord, numberOf, printJson } from "./json.ts";
import type { Prompt } from "./prompt.ts";
import { answerWords, randomOf, type Token, wordTokens } from "./vocabulary.ts";

/** What one generated token belongs to. */
export type Channel = "reasoning" | "content" | "tool";

export interface OutputToken extends Token {
  channel: Channel;
}

/** One choice of an answer, decided as a whole before its first token goes out. */
export interface Sample {
  /** Index among the choices: prompt index × n + sample number, as OpenAI counts them. */
  index: number;
  prompt: Prompt;
  tokens: OutputToken[];
  finish: "stop" | "length" | "tool_calls" | "abort";
  /** The stop string that ended it. */
  stopReason: string | null;
  toolCall: { id: string; name: string } | undefined;
}

export interface GenerateOptions {
  /** Tokens when nothing else limits them. */
  answerTokens: number | undefined;
  maxModelLen: number;
  /** Mixed into the text when decode reads blocks that are not its own: fluent, and wrong. */
  garbage: string;
}

/** All samples of a request. A function of prompt, seed and limits alone, so that every way of serving gives one text. */
export function generate(ask: Ask, options: GenerateOptions): Sample[] {
  const samples: Sample[] = [];
  for (const prompt of ask.prompts) {
    for (let sample = 0; sample < ask.n; sample++) {
      samples.push(generateOne(ask, prompt, sample, samples.length, options));
    }
  }
  return samples;
}

function generateOne(ask: Ask, prompt: Prompt, sample: number, index: number, options: GenerateOptions): Sample {
  const next = randomOf(`${prompt.hash}/${seedOf(ask.seed, sample)}${options.garbage}`);
  const directives = readDirectives(prompt.lastUser);
  const tool = options.garbage === "" ? chooseTool(ask, prompt, directives) : undefined;
  const tokens: OutputToken[] = [];
  const room = Math.max(1, options.maxModelLen - prompt.tokens);
  const limit = Math.min(ask.maxTokens ?? room, room);

  if (ask.reasoning || directives.has("think")) {
    for (let count = 4 + Math.floor(next() * 5); count > 0; count--) push("reasoning", next());
  }
  let toolCall: Sample["toolCall"];
  if (tool !== undefined) {
    toolCall = { id: `call_${prompt.hash}${index}`, name: tool.name };
    for (const piece of argumentPieces(tool, next)) {
      tokens.push({ channel: "tool", id: Math.floor(next() * 65_536), text: piece });
    }
  } else {
    const natural = directives.get("tokens") ?? options.answerTokens ?? 8 + Math.floor(next() * 25);
    // A forced run has no end of its own; the default keeps a client that forgot its limit from a million words.
    const wanted = ask.ignoreEos ? Math.min(limit, 1_048_576) : Math.max(natural, ask.minTokens);
    const before = tokens.length;
    while (tokens.length - before < wanted && tokens.length < limit) push("content", next());
  }
  const kept = tokens.slice(0, limit);
  const stopped = tool === undefined ? cutAtStop(ask, kept) : undefined;
  if (stopped !== undefined) {
    return { index, prompt, tokens: stopped.tokens, finish: "stop", stopReason: stopped.reason, toolCall };
  }
  // A limit that falls exactly on the last word is "length" in the engines: the end mark would have been one token more.
  const ended = tool === undefined ? tokens.length < limit : tokens.length <= limit;
  const finish = ended ? (tool === undefined ? "stop" : "tool_calls") : "length";
  return { index, prompt, tokens: kept, finish, stopReason: null, toolCall };

  function push(channel: Channel, draw: number): void {
    for (const token of wordTokens(Math.floor(draw * answerWords))) tokens.push({ channel, ...token });
  }
}

/** Sample i of n has the seed + i, as vLLM gives it: a router may then ask for each sample by itself. */
function seedOf(seed: string | undefined, sample: number): string {
  if (seed === undefined) return sample === 0 ? "unseeded" : `unseeded/${sample}`;
  return String(BigInt(seed) + BigInt(sample));
}

/** `[sim:tokens=5]`, `[sim:tool]`, `[sim:think]` in the last user message: a client steers the simulated model. */
function readDirectives(text: string): Map<string, number> {
  const found = new Map<string, number>();
  for (const match of text.slice(-4096).matchAll(/\[sim:([a-z]+)(?:=(\d+))?\]/g)) {
    found.set(match[1] as string, Number(match[2] ?? 1));
  }
  return found;
}

function chooseTool(ask: Ask, prompt: Prompt, directives: Map<string, number>): Tool | undefined {
  if (ask.tools.length === 0 || ask.toolChoice === "none") return undefined;
  const named = ask.tools.find((tool) => tool.name === ask.toolChoice);
  if (named !== undefined) return named;
  const mentioned = ask.tools.find((tool) => prompt.lastUser.includes(tool.name));
  if (mentioned !== undefined) return mentioned;
  const wanted = ask.toolChoice === "required" || directives.has("tool") || /\btools?\b/i.test(prompt.lastUser);
  return wanted ? ask.tools[0] : undefined;
}

/** Arguments that fit the tool's schema, cut into the pieces a stream would bring. */
function argumentPieces(tool: Tool, next: () => number): string[] {
  const text = printJson(exampleOf(tool.parameters, next, 0) as JsonRecord);
  const pieces: string[] = [];
  const characters = Array.from(text);
  for (let at = 0; at < characters.length; at += 8) pieces.push(characters.slice(at, at + 8).join(""));
  return pieces;
}

function exampleOf(schema: JsonRecord | undefined, next: () => number, depth: number): Json {
  if (schema === undefined) return Object.create(null) as JsonRecord;
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum[0] as Json;
  if (schema.const !== undefined) return schema.const;
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "string") return wordTokens(Math.floor(next() * 40))[0]?.text.trim() ?? "";
  if (type === "integer" || type === "number") {
    return Math.max(numberOf(schema.minimum) ?? 0, Math.floor(next() * 10));
  }
  if (type === "boolean") return next() < 0.5;
  if (type === "array") {
    return isRecord(schema.items) && depth < 6 ? [exampleOf(schema.items, next, depth + 1)] : [];
  }
  const out = Object.create(null) as JsonRecord;
  if (isRecord(schema.properties) && depth < 6) {
    for (const [name, property] of Object.entries(schema.properties)) {
      out[name] = exampleOf(isRecord(property) ? property : undefined, next, depth + 1);
    }
  }
  return out;
}

/** Cuts the answer before the first stop string (as the engines do) or after the first stop token. */
function cutAtStop(ask: Ask, tokens: OutputToken[]): { tokens: OutputToken[]; reason: string } | undefined {
  if (ask.stop.length === 0 && ask.stopIds.size === 0) return undefined;
  let text = "";
  for (const [at, token] of tokens.entries()) {
    if (token.channel !== "content") continue;
    const before = text.length;
    text += token.text;
    if (at + 1 < ask.minTokens) continue;
    if (ask.stopIds.has(token.id)) return { tokens: tokens.slice(0, at + 1), reason: String(token.id) };
    for (const stop of ask.stop) {
      const found = text.indexOf(stop);
      if (found < 0) continue;
      const kept = tokens.slice(0, at + 1);
      trimText(kept, before + token.text.length - found);
      return { tokens: kept, reason: stop };
    }
  }
  return undefined;
}

/** Takes `surplus` characters off the end of the tokens' texts. */
function trimText(tokens: OutputToken[], surplus: number): void {
  for (let at = tokens.length - 1; at >= 0 && surplus > 0; at--) {
    const token = tokens[at] as OutputToken;
    if (token.channel !== "content") continue;
    const cut = Math.min(surplus, token.text.length);
    tokens[at] = { ...token, text: token.text.slice(0, token.text.length - cut) };
    surplus -= cut;
  }
}
