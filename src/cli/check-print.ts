import type { RouterConfig } from "../config/schema.ts";
import type { CheckReport } from "./check.ts";
import type { WorkerFinding } from "./check-worker.ts";
import type { Output } from "./output.ts";

/** Prints a report for a person: what listens where, and by model and pool what every worker said. */
export function printReport(report: CheckReport, config: RouterConfig, offline: boolean, output: Output): void {
  const { paint } = output;
  const { host, port } = config.listen;
  output.line(`listen      http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`);
  output.line(`policy      prefill ${config.policy.prefill}, decode ${config.policy.decode}`);
  const { needed, allowed, chosen } = report.connections ?? { needed: 0, allowed: null, chosen: false };
  const raises = allowed !== null && allowed < needed && !chosen;
  const raised = raises ? `; this runtime allows ${allowed}, serve raises it at its start` : "";
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
