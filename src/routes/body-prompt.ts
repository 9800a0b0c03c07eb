import { rawValue, readString } from "../json/member.ts";
import type { JsonObject } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import type { ChoiceInput } from "../workers/policy.ts";
import { sessionKey } from "../workers/session-key.ts";

/** What a prompt is made of, for the estimate of its length and for prefix hashes: the raw JSON text of these members. */
const PROMPT_MEMBERS: Readonly<Record<Api, readonly string[]>> = {
  chat: ["messages", "tools"],
  completions: ["prompt"],
  responses: ["instructions", "input"],
  messages: ["system", "messages"],
  generate: ["text", "input_ids"],
};

/** A request's prompt, as far as a worker is chosen by it. */
export class BodyPrompt implements ChoiceInput {
  readonly tokens: number;
  readonly #members: readonly string[];
  readonly #doc: JsonObject;
  readonly #headers: Headers;

  constructor(api: Api, doc: JsonObject, headers: Headers) {
    this.#members = PROMPT_MEMBERS[api];
    this.#doc = doc;
    this.#headers = headers;
    let characters = 0;
    for (const { key, valueStart, valueEnd } of doc.members)
      if (this.#members.includes(key)) characters += valueEnd - valueStart;
    this.tokens = characters / 4;
  }

  prompt(): string {
    // Joined by `+`: one member's text, the usual case, is then a view of the body and no copy of it.
    return this.#members.reduce((text, key) => text + (rawValue(this.#doc, key) ?? ""), "");
  }

  session(): string {
    const header = (name: string) => this.#headers.get(name);
    return sessionKey(header, readString(this.#doc, "user"), () => this.prompt());
  }
}
