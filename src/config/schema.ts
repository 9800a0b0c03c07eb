import * as v from "valibot";
import { aList, mapping } from "./mapping.ts";
import type { PolicyName } from "./policies.ts";
import { label, text } from "./scalars.ts";
import * as section from "./sections.ts";
import { wanted, wantedOneOf } from "./wanted.ts";
import { type WorkerEntry, workerSchema } from "./worker.ts";

export const ENGINES = ["sglang", "vllm", "trtllm", "openai"] as const;
export const CONNECTORS = ["nixl", "nixl-push", "mooncake"] as const;
const CANCEL = ["anytime", "deferred"] as const;

const workerList = v.optional(v.array(workerSchema, aList), []);
const nameList = v.optional(v.array(text(), aList), []);

const poolSchema = mapping({
  name: v.optional(label),
  engine: v.picklist(ENGINES, wantedOneOf(ENGINES)),
  connector: v.optional(v.picklist(CONNECTORS, wantedOneOf(CONNECTORS))),
  region: v.optional(text()),
  cancel: v.optional(v.picklist(CANCEL, wantedOneOf(CANCEL)), "anytime"),
  prefill: workerList,
  decode: workerList,
  workers: workerList,
});

const modelSchema = mapping({
  id: text(),
  aliases: nameList,
  adapters: nameList,
  pools: v.pipe(v.array(poolSchema, aList), v.minLength(1, wanted("at least one pool"))),
});

/** The configuration as written (contract section 2). What depends on more than one field is checked in `rules.ts`. */
export const configSchema = mapping(
  {
    listen: v.optional(section.listen, {}),
    models: v.pipe(v.array(modelSchema, aList), v.minLength(1, wanted("at least one model"))),
    policy: v.optional(section.policy, {}),
    disaggregation: v.optional(section.disaggregation, {}),
    lateFailure: v.optional(section.lateFailure, "any"),
    timeouts: v.optional(section.timeouts, {}),
    limits: v.optional(section.limits, {}),
    retries: v.optional(section.retries, {}),
    breaker: v.optional(section.breaker, {}),
    health: v.optional(section.health, {}),
    auth: v.optional(section.auth, {}),
    cors: v.optional(section.cors, {}),
    regions: v.optional(section.regions, []),
    location: v.optional(section.location),
    geoHeader: v.optional(section.geoHeader),
    store: v.optional(section.store),
    telemetry: v.optional(section.telemetry, {}),
    log: v.optional(section.log, {}),
  },
  wanted("a mapping with the key models"),
);

/** The configuration after the schema, before names and platform defaults are filled in. */
export type ConfigEntry = v.InferOutput<typeof configSchema>;
type ModelEntry = ConfigEntry["models"][number];
export type PoolEntry = ModelEntry["pools"][number];

/**
 * One engine. `url` is normalised (no trailing slash, base path kept, IPv6 in brackets) and may start with `dns+`, which the
 * fleet expands. `name` is unique over the whole configuration. `bootstrapHost` is the url's host unless configured.
 */
export type WorkerConfig = WorkerEntry & { name: string };

/** One KV domain. `connector` is present exactly for engine vllm. */
export type PoolConfig = Omit<PoolEntry, "name" | "prefill" | "decode" | "workers"> & {
  name: string;
  prefill: WorkerConfig[];
  decode: WorkerConfig[];
  workers: WorkerConfig[];
};

export type ModelConfig = Omit<ModelEntry, "pools"> & { pools: PoolConfig[] };

/** A checked configuration with every default filled in. It holds no secret: keys are names of environment variables. */
export type RouterConfig = Omit<ConfigEntry, "models" | "policy"> & {
  models: ModelConfig[];
  /** `decode` is also the policy of aggregated workers. */
  policy: { prefill: PolicyName; decode: PolicyName };
};

export type RegionConfig = RouterConfig["regions"][number];
export type TimeoutsConfig = RouterConfig["timeouts"];
export type LimitsConfig = RouterConfig["limits"];
export type RetriesConfig = RouterConfig["retries"];
export type BreakerConfig = RouterConfig["breaker"];
export type HealthConfig = RouterConfig["health"];
export type ClientKeyConfig = NonNullable<RouterConfig["auth"]["clientKeys"]>[number];
