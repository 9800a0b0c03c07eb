import type { ConfigIssue } from "./issues.ts";
import type { ConfigEntry, PoolEntry } from "./schema.ts";
import { show } from "./wanted.ts";

const ROLES = ["prefill", "decode", "workers"] as const;

/** What is wrong within one pool, and between it and `disaggregation`. `path` is the pool's own. */
export function poolIssues(
  pool: PoolEntry,
  path: string,
  disaggregation: ConfigEntry["disaggregation"],
): ConfigIssue[] {
  return [
    ...roleIssues(pool, path),
    ...connectorIssues(pool, path),
    ...urlIssues(pool, path),
    ...roomIssues(pool, path, disaggregation),
  ];
}

function roleIssues(pool: PoolEntry, path: string): ConfigIssue[] {
  const split = pool.prefill.length + pool.decode.length > 0;
  if (pool.engine === "openai" && split) {
    const role = pool.prefill.length > 0 ? "prefill" : "decode";
    return [
      { path: `${path}.${role}`, message: 'wanted only workers with engine "openai", which cannot split, got a list' },
    ];
  }
  if (!split && pool.workers.length === 0) {
    const wish = pool.engine === "openai" ? "workers" : "prefill and decode, or workers";
    return [{ path, message: `wanted ${wish} in the pool, got none` }];
  }
  if (split && pool.decode.length === 0) {
    return [{ path: `${path}.decode`, message: "wanted at least one worker beside prefill, got none" }];
  }
  if (split && pool.prefill.length === 0) {
    return [{ path: `${path}.prefill`, message: "wanted at least one worker beside decode, got none" }];
  }
  return [];
}

function connectorIssues(pool: PoolEntry, path: string): ConfigIssue[] {
  if (pool.connector !== undefined && pool.engine !== "vllm") {
    const message = `wanted no connector with engine "${pool.engine}", only vllm has one, got ${show(pool.connector)}`;
    return [{ path: `${path}.connector`, message }];
  }
  if (pool.connector !== "nixl-push") return [];
  // Decode is told where prefill is before prefill has said a word, so all of it must stand here.
  const issues: ConfigIssue[] = [];
  const engineIds = new Map<string, number>();
  for (const [w, worker] of pool.prefill.entries()) {
    const at = `${path}.prefill[${w}]`;
    for (const key of ["engineId", "kvHost"] as const) {
      if (worker[key] === undefined) {
        issues.push({ path: `${at}.${key}`, message: 'is required with connector "nixl-push", got nothing' });
      }
    }
    if (worker.engineId === undefined) continue;
    const first = engineIds.get(worker.engineId);
    if (first === undefined) engineIds.set(worker.engineId, w);
    else {
      const message = `wanted an id no other worker has, got ${show(worker.engineId)}, which ${path}.prefill[${first}] has already`;
      issues.push({ path: `${at}.engineId`, message });
    }
  }
  return issues;
}

function urlIssues(pool: PoolEntry, path: string): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  const seen = new Map<string, string>();
  for (const role of ROLES) {
    for (const [w, { url }] of pool[role].entries()) {
      const at = `${path}.${role}[${w}]`;
      const first = seen.get(url);
      if (first === undefined) seen.set(url, at);
      else {
        const message = `wanted a URL that stands once in the pool, got ${show(url)}, which ${first} has already`;
        issues.push({ path: `${at}.url`, message });
      }
    }
  }
  return issues;
}

/** An SGLang decode server refuses requests without a room, so a request that skips prefill needs somebody else to answer it. */
function roomIssues(
  pool: PoolEntry,
  path: string,
  { onNoPrefill, minPromptTokens }: ConfigEntry["disaggregation"],
): ConfigIssue[] {
  if (pool.engine !== "sglang" || pool.prefill.length === 0 || pool.workers.length > 0) return [];
  const why = `for engine sglang without aggregated workers in ${path} (its decode servers refuse requests without prefill)`;
  const issues: ConfigIssue[] = [];
  if (onNoPrefill === "decode-only") {
    issues.push({ path: "disaggregation.onNoPrefill", message: `wanted "reject" ${why}, got "decode-only"` });
  }
  if (minPromptTokens > 0) {
    issues.push({ path: "disaggregation.minPromptTokens", message: `wanted 0 ${why}, got ${minPromptTokens}` });
  }
  return issues;
}
