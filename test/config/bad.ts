/** A minimal good configuration; each call gives a new one. */
export function goodConfig(): Good {
  return {
    models: [
      {
        id: "demo-model",
        pools: [
          {
            name: "default",
            engine: "sglang",
            prefill: [{ url: "http://127.0.0.1:30000", name: "p1", bootstrapPort: 8998 }],
            decode: [{ url: "http://127.0.0.1:30001", name: "d1" }],
          },
        ],
      },
    ],
  };
}

export type Section = Record<string, unknown>;
export interface GoodPool extends Section {
  engine: string;
  prefill: unknown[];
  decode: unknown[];
}
export interface Good extends Section {
  models: { id: string; pools: GoodPool[]; aliases?: unknown; adapters?: unknown; [key: string]: unknown }[];
}

export type Change = (config: Good, pool: GoodPool) => void;

const set =
  (section: string, value: unknown): Change =>
  (config) => {
    config[section] = value;
  };
const inPool =
  (values: Section): Change =>
  (_, pool) => {
    Object.assign(pool, values);
  };
const prefill = (values: Section): Change => inPool({ prefill: [{ url: "http://a", ...values }] });
const push = (worker: unknown): Change => inPool({ engine: "vllm", connector: "nixl-push", prefill: [worker] });
const copyPool: Change = (config, pool) => {
  config.models[0]!.pools.push(structuredClone(pool));
};
const secondModel =
  (values: Section): Change =>
  (config) => {
    const pools = [{ engine: "openai", prefill: [], decode: [], workers: ["http://c"] }];
    config.models.push({ id: "other", pools, ...values });
  };
const keys = (...clientKeys: unknown[]): Change => set("auth", { clientKeys });

/** What is wrong → the change that makes it so, the field the message names, and a part of its text. */
export const BAD: readonly (readonly [what: string, change: Change, field: string, text: string])[] = [
  ["unknown engine", inPool({ engine: "sglangg" }), "models[0].pools[0].engine", 'did you mean "sglang"?'],
  ["no engine", inPool({ engine: undefined }), "models[0].pools[0].engine", "wanted one of sglang"],
  ["no decode", inPool({ decode: [] }), "models[0].pools[0].decode", "at least one worker beside prefill"],
  ["no prefill", inPool({ prefill: [] }), "models[0].pools[0].prefill", "at least one worker beside decode"],
  ["an empty pool", inPool({ prefill: [], decode: [] }), "models[0].pools[0]", "got none"],
  ["port as text", set("listen", { port: "eighty" }), "listen.port", 'got "eighty"'],
  ["port too large", set("listen", { port: 65536 }), "listen.port", "from 0 to 65535"],
  ["empty host", set("listen", { host: " " }), "listen.host", 'got " "'],
  ["limit of -1", set("limits", { concurrency: -1 }), "limits.concurrency", "1 or more, got -1"],
  ["limit of 0 where 0 has no meaning", set("limits", { concurrency: 0 }), "limits.concurrency", "1 or more, got 0"],
  ["body limit of 0", set("limits", { bodyBytes: 0 }), "limits.bodyBytes", "got 0"],
  ["half a request", set("limits", { queue: 1.5 }), "limits.queue", "got 1.5"],
  ["negative time", set("timeouts", { idleMs: -1 }), "timeouts.idleMs", "got -1"],
  ["time beyond every timer", set("timeouts", { idleMs: 2 ** 31 }), "timeouts.idleMs", "2147483647"],
  ["not a number", set("timeouts", { idleMs: Number.NaN }), "timeouts.idleMs", "got NaN"],
  ["unknown key", set("timeoutz", {}), "timeoutz", 'unknown key (did you mean "timeouts"?)'],
  ["unknown nested key", set("timeouts", { idlMs: 3 }), "timeouts.idlMs", 'did you mean "idleMs"?'],
  ["an old name", set("timeouts", { firstByteMs: 3 }), "timeouts.firstByteMs", "unknown key"],
  ["unknown worker key", prefill({ wieght: 2 }), "models[0].pools[0].prefill[0].wieght", 'did you mean "weight"?'],
  ["unknown pool key", inPool({ zone: "a" }), "models[0].pools[0].zone", "unknown key"],
  ["a list for a section", set("timeouts", []), "timeouts", "wanted a mapping, got an empty list"],
  ["nothing for a section", set("timeouts", null), "timeouts", "leave the line out"],
  ["empty admin variable", set("auth", { adminKeyEnv: "" }), "auth.adminKeyEnv", "environment variable"],
  ["empty worker variable", prefill({ apiKeyEnv: "" }), "models[0].pools[0].prefill[0].apiKeyEnv", 'got ""'],
  ["a key for its variable", prefill({ apiKeyEnv: "sk-1/2" }), "models[0].pools[0].prefill[0].apiKeyEnv", "variable"],
  ["user info in the URL", prefill({ url: "http://u:pw@h:1" }), "models[0].pools[0].prefill[0].url", "user info"],
  ["query in the URL", prefill({ url: "http://h/?a=1" }), "models[0].pools[0].prefill[0].url", "query"],
  ["URL without scheme", prefill({ url: "localhost:30000" }), "models[0].pools[0].prefill[0].url", "localhost:30000"],
  ["URL with a foreign scheme", prefill({ url: "grpc://h:1" }), "models[0].pools[0].prefill[0].url", '"grpc"'],
  ["IPv6 without brackets", prefill({ url: "http://::1:80" }), "models[0].pools[0].prefill[0].url", "::1:80"],
  ["URL with port 0", prefill({ url: "http://h:0" }), "models[0].pools[0].prefill[0].url", "port 0"],
  ["dns of an address", prefill({ url: "dns+http://1.2.3.4:1" }), "models[0].pools[0].prefill[0].url", "1.2.3.4"],
  ["a number for a worker", inPool({ decode: [7] }), "models[0].pools[0].decode[0]", "got 7"],
  ["a bad text worker", inPool({ decode: ["x"] }), "models[0].pools[0].decode[0].url", 'got "x"'],
  ["weight 0", prefill({ weight: 0 }), "models[0].pools[0].prefill[0].weight", "above 0"],
  ["bootstrap port 0", prefill({ bootstrapPort: 0 }), "models[0].pools[0].prefill[0].bootstrapPort", "got 0"],
  ["bootstrap host with port", prefill({ bootstrapHost: "h:1" }), "models[0].pools[0].prefill[0].bootstrapHost", "h:1"],
  ["an address as name", prefill({ name: "10.0.0.1:80" }), "models[0].pools[0].prefill[0].name", "10.0.0.1:80"],
  ["no models", (c) => Reflect.deleteProperty(c, "models"), "models", "is required"],
  ["an empty list of models", set("models", []), "models", "at least one model"],
  ["a model without pools", (c) => (c.models[0]!.pools = []), "models[0].pools", "at least one pool"],
  ["a number as id", (c) => Object.assign(c.models[0]!, { id: 7 }), "models[0].id", "put it in quotes"],
  [
    "one URL twice",
    (_, p) => p.decode.push({ url: "http://127.0.0.1:30001/", name: "d2" }),
    "models[0].pools[0].decode[1].url",
    "models[0].pools[0].decode[0] has already",
  ],
  [
    "one URL in two roles",
    (_, p) => p.decode.push("HTTP://127.0.0.1:30000"),
    "models[0].pools[0].decode[1].url",
    "once",
  ],
  [
    "decode-only for sglang",
    set("disaggregation", { onNoPrefill: "decode-only" }),
    "disaggregation.onNoPrefill",
    "sglang",
  ],
  ["short prompts on sglang", set("disaggregation", { minPromptTokens: 20 }), "disaggregation.minPromptTokens", "20"],
  ["no such policy", set("policy", { decode: "best" }), "policy.decode", "least-load"],
  ["one policy as text", set("policy", "random"), "policy", "a mapping"],
  ["no such late mode", set("lateFailure", "never"), "lateFailure", "any, definitive"],
  ["two pools, one name", copyPool, "models[0].pools[1].name", "models[0].pools[0].name has already"],
  [
    "two workers, one name",
    (_, p) => p.decode.push({ url: "http://x", name: "p1" }),
    "models[0].pools[0].decode[1].name",
    "p1",
  ],
  ["two models, one id", secondModel({ id: "demo-model" }), "models[1].id", "demo-model"],
  ["an alias that is an id", secondModel({ aliases: ["demo-model"] }), "models[1].aliases[0]", "models[0].id"],
  ["an alias twice", secondModel({ aliases: ["a", "a"] }), "models[1].aliases[1]", "models[1].aliases[0]"],
  ["an adapter that is an alias", secondModel({ aliases: ["a"], adapters: ["a"] }), "models[1].adapters[0]", '"a"'],
  ["connector for sglang", inPool({ connector: "nixl" }), "models[0].pools[0].connector", "only vllm"],
  ["no such connector", inPool({ engine: "vllm", connector: "lmcache" }), "models[0].pools[0].connector", "mooncake"],
  ["a split of engine openai", inPool({ engine: "openai" }), "models[0].pools[0].prefill", "openai"],
  [
    "push without engine id",
    push({ url: "http://a", kvHost: "a" }),
    "models[0].pools[0].prefill[0].engineId",
    "nixl-push",
  ],
  ["push without host", push({ url: "http://a", engineId: "e" }), "models[0].pools[0].prefill[0].kvHost", "nixl-push"],
  ["no such cancel", inPool({ cancel: "never" }), "models[0].pools[0].cancel", "deferred"],
  ["negative retries", set("retries", { maxRetries: -1 }), "retries.maxRetries", "-1"],
  ["a ceiling below the floor", set("retries", { backoffMs: 2000 }), "retries.maxBackoffMs", "2000"],
  ["an endless budget", set("retries", { budget: Infinity }), "retries.budget", "Infinity"],
  ["a breaker of 0", set("breaker", { failures: 0 }), "breaker.failures", "got 0"],
  ["yes for true", set("breaker", { enabled: "yes" }), "breaker.enabled", "true or false"],
  ["health path without slash", set("health", { path: "health" }), "health.path", "health"],
  ["an empty list of keys", keys(), "auth.clientKeys", "leave clientKeys out"],
  ["a key without variable", keys({ name: "a" }), "auth.clientKeys[0].keyEnv", "required"],
  ["two keys, one name", keys({ name: "a", keyEnv: "A" }, { name: "a", keyEnv: "B" }), "auth.clientKeys[1].name", "a"],
  [
    "two keys, one variable",
    keys({ name: "a", keyEnv: "A" }, { name: "b", keyEnv: "A" }),
    "auth.clientKeys[1].keyEnv",
    "A",
  ],
  [
    "a client key for admin",
    set("auth", { clientKeys: [{ name: "a", keyEnv: "A" }], adminKeyEnv: "A" }),
    "auth.adminKeyEnv",
    "auth.clientKeys[0].keyEnv",
  ],
  ["a key for no model", keys({ name: "a", keyEnv: "A", models: ["m"] }), "auth.clientKeys[0].models[0]", '"m"'],
  ["a rate of 0", keys({ name: "a", keyEnv: "A", requestsPerMinute: 0 }), "auth.clientKeys[0].requestsPerMinute", "0"],
  ["an origin with a path", set("cors", { origins: ["https://a/b"] }), "cors.origins[0]", "https://a/b"],
  ["a latitude of 91", set("regions", [{ name: "a", latitude: 91, longitude: 0 }]), "regions[0].latitude", "91"],
  ["two regions, one name", set("regions", [place("a"), place("a")]), "regions[1].name", "regions[0].name"],
  [
    "a router in no region",
    (c) => Object.assign(c, { regions: [place("a")], location: { region: "b" } }),
    "location.region",
    '"b"',
  ],
  [
    "a pool in no region",
    (c, p) => {
      c["regions"] = [place("a")];
      p["region"] = "b";
    },
    "models[0].pools[0].region",
    '"b"',
  ],
  [
    "a key for no region",
    (c) =>
      Object.assign(c, {
        regions: [place("a")],
        auth: { clientKeys: [{ name: "k", keyEnv: "K", allowedRegions: ["b"] }] },
      }),
    "auth.clientKeys[0].allowedRegions[0]",
    '"b"',
  ],
  ["a header that is none", set("geoHeader", "x geo"), "geoHeader", "x geo"],
  ["a store of another kind", set("store", { url: "http://h" }), "store.url", '"http"'],
  ["a password in the store's URL", set("store", { url: "redis://:pw@h" }), "store.url", "password"],
  ["a relative collector", set("telemetry", { otlpUrl: "/v1" }), "telemetry.otlpUrl", "/v1"],
  ["a collector with a query", set("telemetry", { otlpUrl: "http://c/?a=1" }), "telemetry.otlpUrl", "query"],
  ["a collector with a user", set("telemetry", { otlpUrl: "http://me@c/" }), "telemetry.otlpUrl", "user"],
  ["a store whose path is no database", set("store", { url: "redis://h/abc" }), "store.url", "database"],
  ["no such level", set("log", { level: "warning" }), "log.level", "warn"],
];

function place(name: string): Section {
  return { name, latitude: 1, longitude: 2 };
}
