import { ConfigError, type ConfigIssue } from "../config/issues.ts";
import type { RouterConfig } from "../config/schema.ts";
import type { CheckArguments } from "./arguments.ts";
import { printReport } from "./check-print.ts";
import { checkWorker, type OpenTcp, openTcpConnection, type WorkerFinding } from "./check-worker.ts";
import type { CommandContext } from "./context.ts";
import { type CostReport, costReport, printCosts } from "./explain.ts";
import { type LoadedConfig, loadServeConfig } from "./load.ts";
import { type AskFetch, askWith } from "./probe.ts";
import { Progress } from "./progress.ts";
import { isQuickStart, nameFlags } from "./quick-start.ts";

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
  /** `needed`: both legs of every request at once; `allowed`: by this runtime, null = without limit; `chosen`: by the operator. */
  connections: { needed: number; allowed: number | null; chosen: boolean } | null;
  problems: ConfigIssue[];
  warnings: string[];
  /** With `--explain`. */
  costs?: CostReport;
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
  const progress = new Progress(args.json ? undefined : output.status, "asking the engines");
  const report = await buildReport(loaded, env, args.offline ? undefined : fetch, openTcp, progress);
  progress.end();
  if (args.explain !== undefined) report.costs = costReport(loaded, args.explain === "here" ? undefined : args.explain);
  if (args.json) output.line(JSON.stringify(report, null, 2));
  else printReport(report, loaded.config, args.offline, output);
  if (!args.json && report.costs !== undefined) printCosts(report.costs, output);
  const named = isQuickStart(args) ? nameFlags(new ConfigError(report.problems)).issues : report.problems;
  for (const { path, message } of named) output.error(`${path}: ${message}`);
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
  progress: Progress,
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
            return progress.watch(checkWorker(worker, { path: at, role, pool, model }, ask, openTcp));
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
  const connections = connectionsOf(config, env);
  return {
    ok: problems.length === 0,
    listen: config.listen,
    models,
    connections,
    problems,
    warnings: [
      ...warnings,
      ...connectionWarnings(connections),
      ...findings.flatMap((finding) => finding.warnings.map((w) => `${w.path}: ${w.message}`)),
    ],
  };
}

function notAsked(worker: { name: string; url: string }, path: string, role: WorkerFinding["role"]): WorkerFinding {
  return { path, name: worker.name, url: worker.url, role, reachable: false, models: [], problems: [], warnings: [] };
}

const CAP_VARIABLE = "BUN_CONFIG_MAX_HTTP_REQUESTS";

/** Bun lets 256 outgoing requests run at once and makes the others wait without a word; only this variable changes it. */
function connectionsOf(config: RouterConfig, env: CommandContext["env"]): NonNullable<CheckReport["connections"]> {
  const needed = 2 * config.limits.concurrency;
  const set = Number(env[CAP_VARIABLE]);
  const chosen = Number.isInteger(set) && set > 0;
  if (process.versions.bun === undefined) return { needed, allowed: null, chosen: false };
  return { needed, allowed: chosen ? set : 256, chosen };
}

/** `serve` leaves a value that somebody chose alone, so one that is too small stays in force. */
function connectionWarnings({ needed, allowed, chosen }: NonNullable<CheckReport["connections"]>): string[] {
  if (!chosen || allowed === null || allowed >= needed) return [];
  return [
    `${CAP_VARIABLE}: ${allowed} is less than the ${needed} that limits.concurrency may need; requests would wait unseen`,
  ];
}
