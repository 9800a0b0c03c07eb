import type { ConfigIssue } from "./issues.ts";
import { poolIssues } from "./pool-rules.ts";
import type { ConfigEntry } from "./schema.ts";
import { show } from "./wanted.ts";

/** Remembers where each name was used first and reports the second use. */
export class FirstUse {
  readonly #seen = new Map<string, string>();
  readonly #issues: ConfigIssue[];

  constructor(issues: ConfigIssue[]) {
    this.#issues = issues;
  }

  /** `what` completes the sentence: wanted <what>. */
  take(name: string, path: string, what: string): void {
    const first = this.#seen.get(name);
    if (first === undefined) this.#seen.set(name, path);
    else this.#issues.push({ path, message: `wanted ${what}, got ${show(name)}, which ${first} has already` });
  }

  has(name: string): boolean {
    return this.#seen.has(name);
  }
}

/** What is wrong between fields, although each of them is right by itself (contract section 2). Empty when all is well. */
export function crossFieldIssues(config: ConfigEntry): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  const models = new FirstUse(issues);
  const workers = new FirstUse(issues);
  // All ids first: an alias that hides a model further down is the alias's fault.
  for (const [m, model] of config.models.entries())
    models.take(model.id, `models[${m}].id`, "an id no other model has");
  for (const [m, model] of config.models.entries()) {
    for (const kind of ["aliases", "adapters"] as const) {
      for (const [i, name] of model[kind].entries()) {
        models.take(name, `models[${m}].${kind}[${i}]`, "a name no other model, alias or adapter has");
      }
    }
    const pools = new FirstUse(issues);
    for (const [p, pool] of model.pools.entries()) {
      const path = `models[${m}].pools[${p}]`;
      if (pool.name !== undefined) pools.take(pool.name, `${path}.name`, "a name no other pool of the model has");
      issues.push(...poolIssues(pool, path, config.disaggregation));
      for (const role of ["prefill", "decode", "workers"] as const) {
        for (const [w, worker] of pool[role].entries()) {
          // Over the whole configuration, because /workers/{name} and the metrics know a worker by its name alone.
          if (worker.name !== undefined) {
            workers.take(worker.name, `${path}.${role}[${w}].name`, "a name no other worker has");
          }
        }
      }
    }
  }
  checkAuth(config, models, issues);
  checkRegions(config, issues);
  const { backoffMs, maxBackoffMs } = config.retries;
  if (maxBackoffMs < backoffMs) {
    issues.push({
      path: "retries.maxBackoffMs",
      message: `wanted at least backoffMs (${backoffMs}), got ${maxBackoffMs}`,
    });
  }
  return issues;
}

function checkAuth(config: ConfigEntry, models: FirstUse, issues: ConfigIssue[]): void {
  const names = new FirstUse(issues);
  const variables = new FirstUse(issues);
  for (const [k, key] of (config.auth.clientKeys ?? []).entries()) {
    const path = `auth.clientKeys[${k}]`;
    names.take(key.name, `${path}.name`, "a name no other key has");
    variables.take(key.keyEnv, `${path}.keyEnv`, "a variable of its own");
    for (const [i, model] of (key.models ?? []).entries()) {
      if (!models.has(model)) {
        issues.push({
          path: `${path}.models[${i}]`,
          message: `wanted the id, alias or adapter of a model, got ${show(model)}`,
        });
      }
    }
  }
  const { adminKeyEnv } = config.auth;
  if (adminKeyEnv !== undefined) variables.take(adminKeyEnv, "auth.adminKeyEnv", "a variable of its own");
}

function checkRegions(config: ConfigEntry, issues: ConfigIssue[]): void {
  const names = new FirstUse(issues);
  for (const [r, region] of config.regions.entries()) {
    names.take(region.name, `regions[${r}].name`, "a name no other region has");
  }
  // Without a list of regions their names are free: pools and keys can be matched without knowing where a place is.
  if (config.regions.length === 0) return;
  const known = (name: string | undefined, path: string): void => {
    if (name === undefined || names.has(name)) return;
    issues.push({ path, message: `wanted one of the names in regions, got ${show(name)}` });
  };
  known(config.location?.region, "location.region");
  for (const [m, model] of config.models.entries()) {
    for (const [p, pool] of model.pools.entries()) known(pool.region, `models[${m}].pools[${p}].region`);
  }
  for (const [k, key] of (config.auth.clientKeys ?? []).entries()) {
    for (const [i, region] of (key.allowedRegions ?? []).entries()) {
      known(region, `auth.clientKeys[${k}].allowedRegions[${i}]`);
    }
  }
}
