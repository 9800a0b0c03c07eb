import * as v from "valibot";
import { fromValibot } from "../config/issues.ts";
import { nearest } from "../config/nearest.ts";
import { type WorkerEntry, workerObject } from "../config/worker.ts";
import { DNS_PREFIX } from "../config/worker-url.ts";
import { Failure } from "../errors/failure.ts";
import type { WorkerRole } from "../workers/worker.ts";

/** What `POST /workers` asks for, with the router's own checks behind it. */
export interface JoinBody {
  worker: WorkerEntry;
  apiKey: string | undefined;
  role: WorkerRole | undefined;
  model: string | undefined;
  pool: string | undefined;
  runtime: string | undefined;
  /** Fields of the SGLang gateway's API that were sent and mean nothing here; the answer names them. */
  ignored: string[];
}

/** Members that are a worker's settings, by the names of the SGLang gateway's API or in its style → of our configuration. */
export const SETTING_OF_MEMBER: Readonly<Record<string, keyof WorkerEntry>> = {
  url: "url",
  name: "name",
  weight: "weight",
  bootstrap_host: "bootstrapHost",
  bootstrap_port: "bootstrapPort",
  dp_size: "dpSize",
  engine_id: "engineId",
  kv_host: "kvHost",
  kv_port: "kvPort",
  tp_size: "tpSize",
  pp_size: "ppSize",
};

export const TEXT_MEMBERS = ["api_key", "worker_type", "model_id", "pool", "runtime"] as const;

/** Known to that API and without a meaning here: a script that sends them still works, and is told. */
export const IGNORED_MEMBERS: ReadonlySet<string> = new Set([
  "priority",
  "cost",
  "labels",
  "connection_mode",
  "tokenizer_path",
  "reasoning_parser",
  "tool_parser",
  "chat_template",
  "health_check_timeout_secs",
  "health_check_interval_secs",
  "health_success_threshold",
  "health_failure_threshold",
  "max_connection_attempts",
  "dp_aware",
]);

const ROLE_OF_TYPE: Readonly<Record<string, WorkerRole>> = {
  regular: "aggregated",
  aggregated: "aggregated",
  prefill: "prefill",
  decode: "decode",
};

/** Reads the body of `POST /workers`. Throws a Failure 400 whose `param` is the member that is wrong. */
export function readJoinBody(text: string): JoinBody {
  const body = readObject(text);
  const settings: Record<string, unknown> = {};
  const texts: Partial<Record<(typeof TEXT_MEMBERS)[number], string>> = {};
  const ignored: string[] = [];
  for (const [key, value] of Object.entries(body)) {
    // Other gateways' clients send their absent options as null.
    if (value === null) continue;
    const setting = Object.hasOwn(SETTING_OF_MEMBER, key) ? SETTING_OF_MEMBER[key] : undefined;
    const asText = TEXT_MEMBERS.find((name) => name === key);
    if (setting !== undefined) settings[setting] = value;
    else if (asText !== undefined) texts[asText] = readText(asText, value);
    else if (IGNORED_MEMBERS.has(key)) ignored.push(key);
    else throw unknownMember(key);
  }
  const { api_key: apiKey, worker_type: type } = texts;
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey))
    throw invalidMember("api_key", "has characters a header cannot carry");
  const role = type === undefined ? undefined : ROLE_OF_TYPE[type];
  if (type !== undefined && role === undefined) throw invalidMember("worker_type", "wanted regular, prefill or decode");
  return {
    worker: readWorker(settings),
    apiKey,
    role,
    model: texts.model_id,
    pool: texts.pool,
    runtime: texts.runtime,
    ignored,
  };
}

export function invalidMember(param: string, message: string): Failure {
  return new Failure("invalid_request", { status: 400, stage: "router", param, message: `${param}: ${message}` });
}

function readObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new Failure("invalid_request", { status: 400, stage: "router", message: "Expected a JSON object" });
}

function readText(name: string, value: unknown): string {
  if (typeof value === "string" && value !== "") return value;
  throw invalidMember(name, "wanted a text");
}

function readWorker(settings: Record<string, unknown>): WorkerEntry {
  const result = v.safeParse(workerObject, settings, { abortPipeEarly: true });
  if (!result.success) {
    const { path, message } = fromValibot(result.issues, workerObject)[0]!;
    throw invalidMember(memberOf(path), message);
  }
  if (result.output.url.startsWith(DNS_PREFIX)) {
    throw invalidMember(
      "url",
      `wanted one engine's address; names that stand for several (${DNS_PREFIX}) belong into the configuration`,
    );
  }
  return result.output;
}

function memberOf(path: string): string {
  return Object.entries(SETTING_OF_MEMBER).find(([, setting]) => setting === path)?.[0] ?? path;
}

function unknownMember(key: string): Failure {
  const shown = key.slice(0, 100);
  const near = nearest(shown, [...Object.keys(SETTING_OF_MEMBER), ...TEXT_MEMBERS]);
  return invalidMember(shown, `unknown member${near === undefined ? "" : ` (did you mean "${near}"?)`}`);
}
