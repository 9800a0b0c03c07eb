import type { Engines } from "./engines.ts";

/** Deadlines short enough to be met in a test, long enough for a busy machine of two cores. */
const SHORT = {
  connectMs: 2_000,
  prefillMs: 2_500,
  firstTokenMs: 1_500,
  idleMs: 1_000,
  totalMs: 2_000,
  tailMs: 1_500,
  settleMs: 600,
  shutdownMs: 1_500,
};

/** A port where nobody listens. */
const NOBODY = "http://127.0.0.1:9";

/** The router most scenarios talk to: no retries, no breaker, no probes, so that each request is seen as it is. */
export function plainConfig(engines: Engines): Record<string, unknown> {
  return {
    listen: { host: "127.0.0.1", port: 0 },
    models: [
      model("sg", "sglang", { prefill: [engines.url("sg-p")], decode: [engines.url("sg-d")] }),
      model("vl", "vllm", { prefill: [engines.url("vl-p")], decode: [engines.url("vl-d")] }),
      model("tr", "trtllm", { prefill: [engines.url("tr-p")], decode: [engines.url("tr-d")] }),
      model("agg", "openai", { workers: [engines.url("agg")] }),
      model("once", "sglang", { prefill: [engines.url("once-p")], decode: [engines.url("once-d")] }),
      model("no-deaf", "vllm", { prefill: [engines.deaf.url], decode: [engines.url("vl-d")] }),
      model("no-prefill", "sglang", { prefill: [NOBODY], decode: [engines.url("sg-d")] }),
      model("no-decode", "sglang", { prefill: [engines.url("sg-p")], decode: [NOBODY] }),
    ],
    timeouts: SHORT,
    limits: { bodyBytes: 262_144 },
    retries: { maxRetries: 0 },
    breaker: { enabled: false },
    health: { intervalMs: 0 },
    log: { level: "info" },
  };
}

/** The plain router with its deadlines far away, so that none of them does what something else should have done. */
export function patientConfig(engines: Engines): Record<string, unknown> {
  const far = { prefillMs: 60_000, firstTokenMs: 60_000, idleMs: 60_000, totalMs: 60_000, tailMs: 60_000 };
  return { ...plainConfig(engines), timeouts: { ...SHORT, ...far } };
}

/** A router as one would run it: keys, retries, keep-alive comments, patient deadlines. */
export function livelyConfig(engines: Engines): Record<string, unknown> {
  const plain = plainConfig(engines);
  const served = (plain.models as { id: string }[]).filter(({ id }) => !id.startsWith("no-"));
  return {
    ...plain,
    models: [
      ...served,
      model("two", "sglang", { prefill: [engines.url("r1-p"), engines.url("r2-p")], decode: [engines.url("r-d")] }),
    ],
    policy: { prefill: "round-robin", decode: "round-robin" },
    timeouts: { ...SHORT, firstTokenMs: 60_000, idleMs: 60_000, prefillMs: 60_000, totalMs: 60_000, keepAliveMs: 250 },
    retries: { maxRetries: 2, backoffMs: 10 },
    health: { intervalMs: 200, timeoutMs: 500, failures: 1 },
    auth: { clientKeys: [{ name: "team", keyEnv: "TEAM_KEY" }], adminKeyEnv: "ADMIN_KEY" },
  };
}

export const KEYS = { TEAM_KEY: "team-secret-key", ADMIN_KEY: "admin-secret-key" };

function model(id: string, engine: string, pool: Record<string, string[]>): Record<string, unknown> {
  const named = Object.entries(pool).map(([role, urls]) => [
    role,
    urls.map((url, i) => ({ name: `${id}-${role}-${i + 1}`, url })),
  ]);
  return { id, pools: [{ engine, ...Object.fromEntries(named) }] };
}
