import type { WorkerRole } from "../workers/worker.ts";

/** What an SGLang server tells about itself; absent members were not told. */
export interface ServerInfo {
  role?: WorkerRole;
  bootstrapPort?: number;
  dpSize?: number;
  /** The name it serves its model under. */
  model?: string;
  version?: string;
}

/** Where it tells it; the second is what older servers know. */
export const SERVER_INFO_PATHS = ["/server_info", "/get_server_info"] as const;

/**
 * Reads the JSON of `/server_info`. Undefined when it is no SGLang server's: vLLM has a route of that name in development mode,
 * without a disaggregation mode. Numbers no port or rank count can be are taken as not told.
 */
export function readServerInfo(json: unknown): ServerInfo | undefined {
  if (typeof json !== "object" || json === null) return undefined;
  const told = json as Record<string, unknown>;
  const { disaggregation_mode: mode } = told;
  if (mode === undefined) return undefined;
  const port = told.disaggregation_bootstrap_port;
  const ranks = told.dp_size;
  return {
    role: mode === "prefill" || mode === "decode" ? mode : "aggregated",
    ...(isCount(port) && port <= 65_535 && { bootstrapPort: port }),
    ...(isCount(ranks) && { dpSize: ranks }),
    ...(isName(told.served_model_name) && { model: told.served_model_name }),
    ...(isName(told.version) && { version: told.version }),
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
