// The configuration's types in words, for readers and for registries that want explicit ones. `schema.ts` holds them against what the schema gives.

export type PolicyName = "round-robin" | "random" | "power-of-two" | "least-load" | "prefix-aware" | "consistent-hash";

/**
 * One engine. `url` is normalised (no trailing slash, base path kept, IPv6 in brackets) and may start with `dns+`, which the
 * fleet expands. `name` is unique over the whole configuration. `bootstrapHost` is the url's host unless configured.
 */
export interface WorkerConfig {
  url: string;
  name: string;
  weight: number;
  apiKeyEnv?: string | undefined;
  bootstrapHost: string;
  bootstrapPort?: number | undefined;
  dpSize?: number | undefined;
  engineId?: string | undefined;
  kvHost?: string | undefined;
  kvPort: number;
  tpSize: number;
  ppSize: number;
}

/** The same before it has a name. */
export type WorkerEntry = Omit<WorkerConfig, "name"> & { name?: string | undefined };

/** One KV domain. `connector` is present exactly for engine vllm. */
export interface PoolConfig {
  name: string;
  engine: "sglang" | "vllm" | "trtllm" | "openai";
  connector?: "nixl" | "nixl-push" | "mooncake" | undefined;
  region?: string | undefined;
  cancel: "anytime" | "deferred";
  prefill: WorkerConfig[];
  decode: WorkerConfig[];
  workers: WorkerConfig[];
}

export interface ModelConfig {
  id: string;
  aliases: string[];
  adapters: string[];
  pools: PoolConfig[];
}

/** Milliseconds. */
export interface TimeoutsConfig {
  connectMs: number;
  prefillMs: number;
  firstTokenMs: number;
  idleMs: number;
  totalMs: number;
  tailMs: number;
  settleMs: number;
  handoffMs: number;
  keepAliveMs: number;
  shutdownMs: number;
}

export interface LimitsConfig {
  bodyBytes: number;
  concurrency: number;
  queue: number;
  queueMs: number;
  tailBytes: number;
  eventBytes: number;
  fanout: number;
}

export interface RetriesConfig {
  maxRetries: number;
  backoffMs: number;
  maxBackoffMs: number;
  budget: number;
  on429: boolean;
}

export interface BreakerConfig {
  failures: number;
  openMs: number;
  enabled: boolean;
}

export interface HealthConfig {
  intervalMs: number;
  timeoutMs: number;
  failures: number;
  successes: number;
  path?: string | undefined;
}

/** A client's key by the name of its environment variable, and what it may do. */
export interface ClientKeyConfig {
  name: string;
  keyEnv: string;
  models?: string[] | undefined;
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
  allowedRegions?: string[] | undefined;
}

export interface RegionConfig {
  name: string;
  latitude: number;
  longitude: number;
}

/** A checked configuration with every default filled in. It holds no secret: keys are names of environment variables. */
export interface RouterConfig {
  listen: { host: string; port: number };
  models: ModelConfig[];
  /** `decode` is also the policy of aggregated workers. */
  policy: { prefill: PolicyName; decode: PolicyName };
  disaggregation: { onNoPrefill: "reject" | "decode-only"; minPromptTokens: number };
  lateFailure: "any" | "definitive";
  timeouts: TimeoutsConfig;
  limits: LimitsConfig;
  retries: RetriesConfig;
  breaker: BreakerConfig;
  health: HealthConfig;
  auth: { clientKeys?: ClientKeyConfig[] | undefined; adminKeyEnv?: string | undefined };
  cors: { origins: string[] };
  regions: RegionConfig[];
  location?: { region: string } | undefined;
  geoHeader?: string | undefined;
  store?: { url: string; passwordEnv?: string | undefined } | undefined;
  telemetry: { otlpUrl?: string | undefined };
  log: { level: "debug" | "info" | "warn" | "error" | "silent"; prompts: boolean };
}
