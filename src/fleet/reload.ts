import type { Services } from "../attempt/services.ts";
import type { Secrets } from "../config/load.ts";
import type { RouterConfig } from "../config/schema.ts";
import type { KeyRing } from "../middleware/key-ring.ts";
import type { Router } from "../router.ts";
import type { Admission } from "../workers/admission.ts";

/** Sections that were taken over, and sections that differ and need a restart to count. */
export interface ReloadReport {
  changed: string[];
  restart: string[];
}

type Section = keyof RouterConfig;

/** Read whenever they are needed, or handed on by `applyConfig`. */
const LIVE: readonly Section[] = [
  "models",
  "policy",
  "disaggregation",
  "lateFailure",
  "timeouts",
  "limits",
  "retries",
  "breaker",
  "health",
  "auth",
  "regions",
  "location",
  "geoHeader",
];

export interface ReloadTargets {
  services: Services;
  admission: Admission;
  keys: KeyRing;
  router: Router;
}

/**
 * Takes over a checked configuration while requests run: between two ticks, as a whole. Requests that are under way keep the workers
 * and leases they have; limits and deadlines count for them from their next step on. What is bound to the process (socket, collector,
 * log, CORS) stays as it was and is reported. Nothing is changed if it throws.
 */
export function applyConfig(
  { services, admission, keys, router }: ReloadTargets,
  next: RouterConfig,
  secrets: Secrets,
): ReloadReport {
  const { config, fleet, telemetry } = services;
  const differs = (section: Section): boolean => JSON.stringify(config[section]) !== JSON.stringify(next[section]);
  const sections = Object.keys({ ...config, ...next }) as Section[];
  const report: ReloadReport = {
    changed: sections.filter((section) => LIVE.includes(section) && differs(section)),
    restart: sections.filter((section) => !LIVE.includes(section) && differs(section)),
  };
  // The only step that can refuse, and it does so before it changes anything.
  fleet.reload(next, secrets.workerKeys);
  telemetry.learn({ models: next.models.map((model) => model.id), secrets: allKeys(secrets) });
  for (const section of LIVE) Object.assign(config, { [section]: next[section] });
  admission.configure(next.limits);
  keys.configure(secrets.clientKeys, secrets.adminKey);
  router.configure();
  return report;
}

/** Every secret value there is, to be masked wherever it would show. */
export function allKeys(secrets: Secrets): string[] {
  const keys = [...secrets.workerKeys.values(), ...secrets.clientKeys.map(({ key }) => key)];
  if (secrets.adminKey !== undefined) keys.push(secrets.adminKey);
  if (secrets.storePassword !== undefined) keys.push(secrets.storePassword);
  return keys;
}
