import { readServerInfo, SERVER_INFO_PATHS, type ServerInfo } from "../fleet/server-info.ts";

/** The one piece of `fetch` that asking an engine needs; tests bring their own. */
export type AskFetch = (url: string, init: RequestInit) => Promise<Response>;

/** An engine's answer to a question, or why there is none. */
export type Answer = { status: number; json: unknown } | { error: string };

const PATIENCE_MS = 5000;

/** Asks one engine one question. Never throws. `url` is a worker's normalised base URL (`dns+` is asked as the name it is). */
export type Ask = (url: string, path: string) => Promise<Answer>;

/** Builds `Ask` over a fetch; `keyOf` gives the key a worker wants, if any. */
export function askWith(fetch: AskFetch, keyOf: (url: string) => string | undefined = () => undefined): Ask {
  return async function ask(url, path): Promise<Answer> {
    const key = keyOf(url);
    const init = {
      redirect: "manual",
      signal: AbortSignal.timeout(PATIENCE_MS),
      headers: { accept: "application/json", ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      // Bun reads proxy variables, and an engine's address means nothing to a proxy.
      proxy: false,
    } satisfies RequestInit & { proxy: boolean };
    try {
      const response = await fetch(url.replace(/^dns\+/, "") + path, init as RequestInit);
      const text = await response.text();
      return { status: response.status, json: parse(text) };
    } catch (error) {
      return { error: reason(error) };
    }
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return `no answer within ${PATIENCE_MS} ms`;
  const { code } = error as { code?: unknown };
  // Bun's text for a refused connection asks the reader whether he is online; the code says it better. Node's own text is only "fetch failed".
  if (typeof code === "string") return code;
  return error.cause instanceof Error ? error.cause.message : error.message;
}

/** A member of a JSON object, or undefined. */
export function member(json: unknown, key: string): unknown {
  return typeof json === "object" && json !== null && !Array.isArray(json)
    ? (json as Record<string, unknown>)[key]
    : undefined;
}

export interface ListedModel {
  id: string;
  ownedBy: string;
  /** vLLM lists adapters beside their base model, with its name. */
  adapter: boolean;
}

/** The engine that a model list's owner stands for; undefined where none is known by that name. */
export function engineOfOwner(owner: string): "sglang" | "vllm" | "trtllm" | undefined {
  const name = owner.toLowerCase();
  if (name === "sglang" || name === "vllm") return name;
  return name.startsWith("tensorrt") ? "trtllm" : undefined;
}

/** The models an engine lists at /v1/models, or why it does not. */
export async function listModels(ask: Ask, url: string): Promise<ListedModel[] | { error: string }> {
  const answer = await ask(url, "/v1/models");
  if ("error" in answer) return answer;
  const data = member(answer.json, "data");
  if (answer.status !== 200 || !Array.isArray(data)) return { error: `status ${answer.status} for /v1/models` };
  return data.flatMap(function listed(entry): ListedModel[] {
    const id = member(entry, "id");
    if (typeof id !== "string" || id === "") return [];
    return [
      { id, ownedBy: String(member(entry, "owned_by") ?? ""), adapter: typeof member(entry, "parent") === "string" },
    ];
  });
}

/** Asks /server_info, on older servers /get_server_info. Undefined when neither is an SGLang server's. */
export async function sglangInfo(ask: Ask, url: string): Promise<ServerInfo | undefined> {
  for (const path of SERVER_INFO_PATHS) {
    const answer = await ask(url, path);
    if ("error" in answer) return undefined;
    const info = answer.status === 200 ? readServerInfo(answer.json) : undefined;
    if (info !== undefined) return info;
  }
  return undefined;
}

/** The version at /version (vllm, trtllm), or undefined. */
export async function versionOf(ask: Ask, url: string): Promise<string | undefined> {
  const answer = await ask(url, "/version");
  const version = "error" in answer || answer.status !== 200 ? undefined : member(answer.json, "version");
  return typeof version === "string" ? version : undefined;
}
