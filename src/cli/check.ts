import { ConfigError, type ConfigIssue } from "../config/issues.ts";
import type { RouterConfig } from "../config/schema.ts";
import type { CheckArguments } from "./arguments.ts";
import { checkWorker, type OpenTcp, openTcpConnection, type WorkerFinding } from "./check-worker.ts";
import type { CommandContext } from "./context.ts";
import { type LoadedConfig, loadServeConfig } from "./load.ts";
import type { Output } from "./output.ts";
import { type AskFetch, askWith } from "./probe.ts";

/** What `check` found; `--json` prints it as it is. */
export interface CheckReport {
  ok: boolean;
  listen: { host: string; port: number } | null;
  models: {
    id: string;
    aliases: string[];
    adapters: string[];
    pools: { name: string; engine: string; connector: string | null; cancel: string; workers: WorkerFinding[] }[];
  }[];
  /** `needed`: both legs of every request at once; `allowed`: by this runtime, null = without limit. */
  connections: { needed: number; allowed: number | null } | null;
  problems: ConfigIssue[];
  warnings: string[];
}

export interface CheckOptions extends CommandContext {
  args: CheckArguments;
  fetch?: AskFetch;
  openTcp?: OpenTcp;
}

/**
 * `prefill-router check`: validates the configuration, asks every engine what it is, prints what would be routed where. Nothing
 * is listening meanwhile and no engine gets a request that costs tokens.
 *
 * Answers the exit code: 0, or 1 when anything is wrong, which stderr names by its field. Throws `UsageError` for flags that
 * contradict each other, and without `--json` `ConfigError` for a bad configuration.
 */
export async function runCheck(options: CheckOptions): Promise<number> {
  const { args, env, output, fetch = globalThis.fetch, openTcp = openTcpConnection } = options;
  let loaded: LoadedConfig;
  try {
    loaded = await loadServeConfig(args, env, fetch);
  } catch (error) {
    if (!args.json || !(error instanceof ConfigError)) throw error;
    output.line(JSON.stringify(badConfiguration(error), null, 2));
    output.error(error.message);
    return 1;
  }
  const report = await buildReport(loaded, env, args.offline ? undefined : fetch, openTcp);
  if (args.json) output.line(JSON.stringify(report, null, 2));
  else printReport(report, loaded.config, args.offline, output);
  for (const { path, message } of report.problems) output.error(`${path}: ${message}`);
  return report.ok ? 0 : 1;
}

function badConfiguration(error: ConfigError): CheckReport {
  return { ok: false, listen: null, models: [], connections: null, problems: [...error.issues], warnings: [] };
}

async function buildReport(
  { config, secrets, warnings }: LoadedConfig,
  env: CommandContext["env"],
  fetch: AskFetch | undefined,
  openTcp: OpenTcp,
): Promise<CheckReport> {
  const models = await Promise.all(
    config.models.map(async function checkModel(model, m): Promise<CheckReport["models"][number]> {
      const pools = model.pools.map(async function checkPool(pool, p) {
        const path = `models[${m}].pools[${p}]`;
        const found = (["prefill", "decode", "workers"] as const).flatMap((key) =>
          pool[key].map(function checkOne(worker, w): Promise<WorkerFinding> | WorkerFinding {
            const role = key === "workers" ? "aggregated" : key;
            const at = `${path}.${key}[${w}]`;
            if (fetch === undefined) return notAsked(worker, at, role);
            const ask = askWith(fetch, () => secrets.workerKeys.get(worker.name));
            return checkWorker(worker, { path: at, role, pool, model }, ask, openTcp);
          }),
        );
        const { name, engine, connector = null, cancel } = pool;
        return { name, engine, connector, cancel, workers: await Promise.all(found) };
      });
      const { id, aliases, adapters } = model;
      return { id, aliases, adapters, pools: await Promise.all(pools) };
    }),
  );
  const findings = models.flatMap((model) => model.pools.flatMap((pool) => pool.workers));
  const problems = findings.flatMap((finding) => finding.problems);
  return {
    ok: problems.length === 0,
    listen: config.listen,
    models,
    connections: { needed: 2 * config.limits.concurrency, allowed: allowedConnections(env) },
    problems,
    warnings: [...warnings, ...findings.flatMap((finding) => finding.warnings.map((w) => `${w.path}: ${w.message}`))],
  };
}

function notAsked(worker: { name: string; url: string }, path: string, role: WorkerFinding["role"]): WorkerFinding {
  return { path, name: worker.name, url: worker.url, role, reachable: false, models: [], problems: [], warnings: [] };
}

/** Bun lets 256 outgoing requests run at once and makes the others wait without a word; only this variable changes it. */
function allowedConnections(env: CommandContext["env"]): number | null {
  if (process.versions.bun === undefined) return null;
  const set = Number(env.BUN_CONFIG_MAX_HTTP_REQUESTS);
  return Number.isInteger(set) && set > 0 ? set : 256;
}

function printReport(report: CheckReport, config: RouterConfig, offline: boolean, output: Output): void {
  const { paint } = output;
  const { host, port } = config.listen;
  output.line(`listen      http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`);
  output.line(`policy      prefill ${config.policy.prefill}, decode ${config.policy.decode}`);
  const { needed, allowed } = report.connections ?? { needed: 0, allowed: null };
  const raised =
    allowed !== null && allowed < needed ? `; this runtime allows ${allowed}, serve raises it at its start` : "";
  output.line(
    `connections up to ${needed} to engines at once (limits.concurrency ${config.limits.concurrency}, two legs each)${raised}`,
  );
  for (const model of report.models) {
    const also = [...model.aliases.map((name) => `alias ${name}`), ...model.adapters.map((name) => `adapter ${name}`)];
    output.line(`${paint.bold(`model ${model.id}`)}${also.length === 0 ? "" : ` (${also.join(", ")})`}`);
    for (const pool of model.pools) {
      const kind = pool.connector === null ? pool.engine : `${pool.engine} (${pool.connector})`;
      output.line(`  pool ${pool.name}: ${kind}, cancel ${pool.cancel}`);
      for (const worker of pool.workers) output.line(`    ${workerLine(worker, offline, output)}`);
    }
  }
  for (const warning of report.warnings) output.line(`${paint.warn("warning")} ${warning}`);
  const verdict = offline
    ? "configuration is valid, no engine was asked"
    : "all engines are what the configuration says";
  output.line(report.ok ? paint.good(verdict) : paint.bad(`${report.problems.length} to put right`));
}

function workerLine(worker: WorkerFinding, offline: boolean, { paint }: Output): string {
  const head = `${worker.role.padEnd(10)} ${worker.name}  ${worker.url}`;
  if (offline) return head;
  const state = !worker.reachable
    ? paint.bad("not reachable")
    : worker.problems.length > 0
      ? paint.bad("not as configured")
      : paint.good("ok");
  const facts = [
    worker.version !== undefined && `version ${worker.version}`,
    worker.reportedRole !== undefined && `role ${worker.reportedRole}`,
    worker.dpSize !== undefined && `dp size ${worker.dpSize}`,
    worker.bootstrap !== undefined &&
      `bootstrap ${worker.bootstrap.host}:${worker.bootstrap.port} ${worker.bootstrap.open ? "open" : "closed"}`,
    worker.models.length > 0 && `serves ${worker.models.join(", ")}`,
  ].filter((fact) => fact !== false);
  return `${head}  ${state}${facts.length === 0 ? "" : `  ${paint.dim(facts.join(", "))}`}`;
}
