import { ConfigError, type ConfigIssue } from "./issues.ts";
import type { ClientKeyConfig, RouterConfig } from "./schema.ts";

/** A client's key with what it may do; absent limits are none. */
export type ClientKey = Omit<ClientKeyConfig, "keyEnv"> & { key: string };

/** The values of all variables the configuration names. Kept apart from it, so that a printed configuration holds no secret. */
export interface Secrets {
  /** By worker name. */
  workerKeys: Map<string, string>;
  /** Empty = no client needs a key. */
  clientKeys: ClientKey[];
  /** Absent = the admin routes answer 404. */
  adminKey?: string;
  storePassword?: string;
}

/**
 * Looks up every variable that the configuration names. A variable that is empty or missing, or that cannot stand in a header,
 * is an issue that names the field and the variable, never the value (contract section 2). Throws `ConfigError`.
 */
export function resolveSecrets(config: RouterConfig, env: Readonly<Record<string, unknown>>): Secrets {
  const issues: ConfigIssue[] = [];
  const read = (variable: string, path: string): string => {
    const held = env[variable];
    // Mounted secrets often end in a newline, which no header can carry.
    const value = typeof held === "string" ? held.trim() : "";
    if (value === "") issues.push({ path, message: `the environment variable ${variable} is empty or missing` });
    else if (!/^[\x21-\x7e]+$/.test(value)) {
      issues.push({ path, message: `the environment variable ${variable} has characters a header cannot carry` });
    }
    return value;
  };
  const secrets: Secrets = { workerKeys: new Map(), clientKeys: [] };
  for (const [m, model] of config.models.entries()) {
    for (const [p, pool] of model.pools.entries()) {
      for (const role of ["prefill", "decode", "workers"] as const) {
        for (const [w, worker] of pool[role].entries()) {
          if (worker.apiKeyEnv === undefined) continue;
          const path = `models[${m}].pools[${p}].${role}[${w}].apiKeyEnv`;
          secrets.workerKeys.set(worker.name, read(worker.apiKeyEnv, path));
        }
      }
    }
  }
  // Two names for one value would make it a matter of luck whose limits count, or let a client in as admin.
  const owners = new Map<string, string>();
  const own = (value: string, variable: string, path: string): void => {
    const first = owners.get(value);
    if (first === undefined) owners.set(value, variable);
    else if (value !== "") {
      issues.push({ path, message: `the environment variable ${variable} holds the same key as ${first}` });
    }
  };
  for (const [k, { keyEnv, ...key }] of (config.auth.clientKeys ?? []).entries()) {
    const value = read(keyEnv, `auth.clientKeys[${k}].keyEnv`);
    own(value, keyEnv, `auth.clientKeys[${k}].keyEnv`);
    secrets.clientKeys.push({ ...key, key: value });
  }
  const { adminKeyEnv } = config.auth;
  if (adminKeyEnv !== undefined) {
    secrets.adminKey = read(adminKeyEnv, "auth.adminKeyEnv");
    own(secrets.adminKey, adminKeyEnv, "auth.adminKeyEnv");
  }
  if (config.store?.passwordEnv !== undefined) {
    secrets.storePassword = read(config.store.passwordEnv, "store.passwordEnv");
  }
  if (issues.length > 0) throw new ConfigError(issues);
  return secrets;
}
