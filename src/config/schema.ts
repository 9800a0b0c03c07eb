import * as v from "valibot";
import { aList, mapping } from "./mapping.ts";
import { label, text } from "./scalars.ts";
import * as section from "./sections.ts";
import type { PolicyName, RouterConfig } from "./types.ts";
import { wanted, wantedOneOf } from "./wanted.ts";
import { type workerObject, workerSchema } from "./worker.ts";

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

export type {
  BreakerConfig,
  ClientKeyConfig,
  HealthConfig,
  LimitsConfig,
  ModelConfig,
  PoolConfig,
  RegionConfig,
  RetriesConfig,
  RouterConfig,
  TimeoutsConfig,
  WorkerConfig,
} from "./types.ts";

type NamedWorker = v.InferOutput<typeof workerObject> & { name: string };
type NamedPool = Omit<PoolEntry, "name" | "prefill" | "decode" | "workers"> & {
  name: string;
  prefill: NamedWorker[];
  decode: NamedWorker[];
  workers: NamedWorker[];
};
type Completed = Omit<ConfigEntry, "models" | "policy"> & {
  models: (Omit<ModelEntry, "pools"> & { pools: NamedPool[] })[];
  policy: { prefill: PolicyName; decode: PolicyName };
};

/** Does not compile when the schema and the types in words part ways, in either direction, a missing key included. */
type Keys<T> = T extends readonly (infer Item)[]
  ? Keys<Item>
  : T extends object
    ? { [K in keyof T]-?: Keys<NonNullable<T[K]>> }
    : T;
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
const sameTypes: Same<Keys<Completed>, Keys<RouterConfig>> & Same<Completed, RouterConfig> = true;
void sameTypes;
