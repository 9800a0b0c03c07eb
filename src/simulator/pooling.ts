import { Refusal } from "./engine-error.ts";
import { isRecord, type Json, type JsonRecord, printJson } from "./json.ts";
import { chatPrompt, readIds } from "./prompt.ts";
import { jsonScript, type Script } from "./script.ts";
import type { EngineState } from "./state.ts";
import { countTokens, detokenize, hashText, randomOf, tokenize } from "./vocabulary.ts";

const dimensions = 8;

type PoolingRoute = (state: EngineState, body: JsonRecord) => JsonRecord;

const routes: Readonly<Record<string, PoolingRoute>> = {
  "/v1/embeddings": embeddings,
  "/v1/rerank": rerank,
  "/v1/score": score,
  "/v1/classify": classify,
  "/tokenize": tokenizeText,
  "/detokenize": detokenizeIds,
};

export function isPoolingPath(path: string): boolean {
  return Object.hasOwn(routes, path);
}

/** Routes without generation. Throws Refusal. Everything is a function of the texts alone. */
export function poolingRoute(state: EngineState, path: string, body: JsonRecord): Script {
  const route = routes[path];
  if (route === undefined) throw new Refusal(404, "Not Found");
  return jsonScript(200, printJson(route(state, body)));
}

function embeddings(state: EngineState, body: JsonRecord): JsonRecord {
  const texts = textList(body.input, "input");
  const data = texts.map((text, index): JsonRecord => ({ object: "embedding", index, embedding: vectorOf(text) }));
  return { ...head(state, "embd", body), object: "list", data, usage: usageOf(texts) };
}

function rerank(state: EngineState, body: JsonRecord): JsonRecord {
  if (typeof body.query !== "string") throw new Refusal(400, "Field required: query", "query");
  const query = body.query;
  const documents = textList(body.documents, "documents");
  const results = documents
    .map((text, index) => ({ index, document: { text } as JsonRecord, relevance_score: similarity(query, text) }))
    .sort((left, right) => right.relevance_score - left.relevance_score);
  return { ...head(state, "rerank", body), results, usage: { total_tokens: total([query, ...documents]) } };
}

function score(state: EngineState, body: JsonRecord): JsonRecord {
  const left = textList(body.text_1, "text_1");
  const right = textList(body.text_2, "text_2");
  const data = right.map(function compare(text, index): JsonRecord {
    return { index, object: "score", score: similarity(left[index % left.length] as string, text) };
  });
  return { ...head(state, "score", body), object: "list", data, usage: usageOf([...left, ...right]) };
}

function classify(state: EngineState, body: JsonRecord): JsonRecord {
  const texts = textList(body.input, "input");
  const data = texts.map(function judge(text, index): JsonRecord {
    const first = randomOf(hashText(text))();
    const probs = [first, 1 - first];
    return { index, label: first >= 0.5 ? "LABEL_0" : "LABEL_1", probs, num_classes: 2 };
  });
  return { ...head(state, "classify", body), object: "list", data, usage: usageOf(texts) };
}

function tokenizeText(state: EngineState, body: JsonRecord): JsonRecord {
  const text =
    typeof body.prompt === "string" ? body.prompt : Array.isArray(body.messages) ? chatPrompt(body).text : undefined;
  if (text === undefined) throw new Refusal(400, "Field required: prompt", "prompt");
  const tokens = tokenize(text);
  return { tokens, count: tokens.length, max_model_len: state.maxModelLen };
}

function detokenizeIds(state: EngineState, body: JsonRecord): JsonRecord {
  const ids = readIds(body.tokens);
  if (ids === undefined) throw new Refusal(400, "Field required: tokens", "tokens");
  return state.engine === "sglang" ? { text: detokenize(ids) } : { prompt: detokenize(ids) };
}

function head(state: EngineState, prefix: string, body: JsonRecord): JsonRecord {
  const model = typeof body.model === "string" ? body.model : state.model;
  return { id: `${prefix}-${crypto.randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
}

function textList(value: Json | undefined, name: string): string[] {
  if (typeof value === "string") return [value];
  const ids = readIds(value);
  if (ids !== undefined && ids.length > 0) return [detokenize(ids)];
  const list = Array.isArray(value) ? value : [];
  const texts = list.map(function read(item): string {
    const inner = readIds(item);
    if (inner !== undefined) return detokenize(inner);
    if (typeof item === "string") return item;
    if (isRecord(item) && typeof item.text === "string") return item.text;
    throw new Refusal(400, `Input should be a valid string: ${name}`, name);
  });
  if (texts.length === 0) throw new Refusal(400, `Field required: ${name}`, name);
  return texts;
}

/** A unit vector. */
function vectorOf(text: string): number[] {
  const next = randomOf(hashText(text));
  const raw = Array.from({ length: dimensions }, () => next() - 0.5);
  const length = Math.hypot(...raw);
  return raw.map((part) => part / length);
}

function similarity(left: string, right: string): number {
  const other = vectorOf(right);
  const dot = vectorOf(left).reduce((sum, part, at) => sum + part * (other[at] as number), 0);
  return (dot + 1) / 2;
}

function total(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + countTokens(text), 0);
}

function usageOf(texts: readonly string[]): JsonRecord {
  const tokens = total(texts);
  return { prompt_tokens: tokens, total_tokens: tokens, completion_tokens: 0, prompt_tokens_details: null };
}
