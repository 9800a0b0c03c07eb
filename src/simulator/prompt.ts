import { canonical, isRecord, type Json, type JsonRecord, numberOf } from "./json.ts";
import { countTokens, detokenize, hashText, tokenize } from "./vocabulary.ts";

/** One prompt as the model sees it. */
export interface Prompt {
  text: string;
  tokens: number;
  /** Equal for equal prompts, on whichever leg and engine. */
  hash: string;
  /** What the last user message says: the place for instructions to the simulator. */
  lastUser: string;
}

/** An image is worth this many tokens, whatever its size: its bytes are no text. */
const imageTokens = 256;

export function makePrompt(text: string, lastUser = text, extraTokens = 0): Prompt {
  return { text, tokens: countTokens(text) + extraTokens, hash: hashText(text), lastUser };
}

export function promptIds(prompt: Prompt): number[] {
  return tokenize(prompt.text);
}

/** Renders a chat as a template would: everything that is part of the prompt, nothing that only steers sampling. */
export function chatPrompt(body: JsonRecord): Prompt {
  const messages = Array.isArray(body.messages) ? body.messages : [];
  return render(messages, [body.system], body);
}

/** `/v1/responses`: `input` is a text or a list of items. */
export function responsesPrompt(body: JsonRecord): Prompt {
  const input = body.input;
  const items: Json[] = Array.isArray(input) ? input : [{ role: "user", content: input ?? "" } as JsonRecord];
  return render(items, [body.instructions], body);
}

function render(messages: readonly Json[], system: readonly (Json | undefined)[], body: JsonRecord): Prompt {
  let images = 0;
  let lastUser = "";
  const parts: string[] = [];
  for (const text of system) if (text !== undefined && text !== null) parts.push(`<|system|>${flatten(text)}`);
  for (const name of ["tools", "documents", "chat_template", "chat_template_kwargs"]) {
    const value = body[name];
    if (value !== undefined && value !== null) parts.push(`<|${name}|>${canonical(value)}`);
  }
  for (const message of messages) {
    if (!isRecord(message)) continue;
    const content = flatten(message.content);
    const rest = Object.keys(message)
      .filter((key) => key !== "role" && key !== "content")
      .sort()
      .map((key) => `<|${key}|>${canonical(message[key] as Json)}`);
    parts.push(`<|${typeof message.role === "string" ? message.role : "item"}|>${content}${rest.join("")}`);
    if (message.role === "user") lastUser = content;
  }
  parts.push("<|assistant|>");
  return makePrompt(parts.join("\n"), lastUser, images * imageTokens);

  function flatten(content: Json | undefined): string {
    if (typeof content === "string") return content;
    if (!Array.isArray(content)) return content === undefined || content === null ? "" : canonical(content);
    const texts: string[] = [];
    for (const part of content) {
      if (typeof part === "string") texts.push(part);
      else if (isRecord(part) && typeof part.text === "string") texts.push(part.text);
      else {
        images += 1;
        texts.push(`<|part ${hashText(canonical(part))}|>`);
      }
    }
    return texts.join("\n");
  }
}

/** `prompt` of completions, `text` or `input_ids` of `/generate`: one prompt, or a batch. Undefined: neither. */
export function plainPrompts(value: Json | undefined): { prompts: Prompt[]; batch: boolean } | undefined {
  if (typeof value === "string") return { prompts: [makePrompt(value)], batch: false };
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const ids = readIds(value);
  if (ids !== undefined) return { prompts: [makePrompt(detokenize(ids))], batch: false };
  const prompts: Prompt[] = [];
  for (const item of value) {
    const itemIds = Array.isArray(item) ? readIds(item) : undefined;
    if (typeof item === "string") prompts.push(makePrompt(item));
    else if (itemIds !== undefined) prompts.push(makePrompt(detokenize(itemIds)));
    else return undefined;
  }
  return { prompts, batch: true };
}

/** A flat list of token ids, or undefined. */
export function readIds(value: Json | undefined): number[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const ids: number[] = [];
  for (const item of value) {
    const id = numberOf(item);
    if (id === undefined || !Number.isInteger(id)) return undefined;
    ids.push(id);
  }
  return ids;
}
