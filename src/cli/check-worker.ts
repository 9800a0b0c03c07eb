import { connect } from "node:net";
import type { PoolConfig, WorkerConfig } from "../config/schema.ts";
import { show } from "../config/wanted.ts";
import { readMooncakeRanks } from "../fleet/mooncake-query.ts";
import type { ServerInfo } from "../fleet/server-info.ts";
import { BOOTSTRAP_PORT } from "../workers/worker.ts";
import { type Ask, engineOfOwner, listModels, sglangInfo, versionOf } from "./probe.ts";
import { explainReach } from "./reach.ts";

export type Role = "prefill" | "decode" | "aggregated";

/** What asking one worker told. Absent members were not told, or are not asked of this engine. */
export interface WorkerFinding {
  /** Field of the configuration. */
  path: string;
  name: string;
  url: string;
  role: Role;
  reachable: boolean;
  models: string[];
  version?: string;
  reportedRole?: Role;
  dpSize?: number;
  bootstrap?: { host: string; port: number; open: boolean };
  /** What is wrong, by field. */
  problems: { path: string; message: string }[];
  /** What may be meant so, by field. */
  warnings: { path: string; message: string }[];
}

/** Opens and closes one TCP connection; answers whether that worked. */
export type OpenTcp = (host: string, port: number) => Promise<boolean>;

/** Names of the model that its engines must know. */
export interface ServedNames {
  id: string;
  adapters: readonly string[];
}

/** Asks one worker what it is and compares that with what the configuration says. Never throws. */
export async function checkWorker(
  worker: WorkerConfig,
  place: { path: string; role: Role; pool: PoolConfig; model: ServedNames },
  ask: Ask,
  openTcp: OpenTcp,
): Promise<WorkerFinding> {
  const { path, role, pool } = place;
  const finding: WorkerFinding = {
    path,
    name: worker.name,
    url: worker.url,
    role,
    reachable: false,
    models: [],
    problems: [],
    warnings: [],
  };
  const models = await listModels(ask, worker.url);
  if (Array.isArray(models)) {
    finding.reachable = true;
    finding.models = models.map((model) => model.id);
    compareEngine(finding, pool, models[0]?.ownedBy ?? "");
    compareModels(finding, place.model);
  } else {
    finding.problems.push({
      path: `${path}.url`,
      message: `wanted an engine that answers at ${worker.url}, got ${explainReach(models.error)}`,
    });
    return finding;
  }
  const info = pool.engine === "sglang" ? await sglangInfo(ask, worker.url) : undefined;
  if (pool.engine === "sglang") compareSglang(finding, worker, info);
  else if (pool.engine !== "openai") setVersion(finding, await versionOf(ask, worker.url));
  if (role === "prefill" && pool.connector === "mooncake") await checkMooncake(finding, worker, ask);
  else if (role === "prefill" && pool.engine === "sglang") {
    // The port the router will use: the configured one, else the one the server tells.
    const port = worker.bootstrapPort ?? info?.bootstrapPort ?? BOOTSTRAP_PORT;
    await checkBootstrap(finding, { host: worker.bootstrapHost, port }, openTcp);
  }
  return finding;
}

/** Engines of one API understand each other's requests, but not each other's hand-offs. */
function compareEngine(finding: WorkerFinding, pool: PoolConfig, owner: string): void {
  const told = engineOfOwner(owner);
  // Engine "openai" stands for any.
  if (told === undefined || pool.engine === "openai" || told === pool.engine) return;
  finding.problems.push({
    path: finding.path,
    message: `wanted ${pool.engine}, got ${told} (owned_by of its models)`,
  });
}

function compareModels(finding: WorkerFinding, model: ServedNames): void {
  const served = finding.models.length === 0 ? "none" : finding.models.map((id) => show(id)).join(", ");
  if (!finding.models.includes(model.id)) {
    finding.problems.push({
      path: finding.path,
      message: `wanted an engine that serves ${show(model.id)}, got ${served} (--served-model-name, or the id in the configuration)`,
    });
  }
  for (const adapter of model.adapters) {
    if (finding.models.includes(adapter)) continue;
    // Engines can load adapters while they run, so this may come right later.
    finding.warnings.push({
      path: finding.path,
      message: `the adapter ${show(adapter)} is not listed, only ${served}`,
    });
  }
}

function setVersion(finding: WorkerFinding, version: string | undefined): void {
  if (version !== undefined) finding.version = version;
}

function compareSglang(finding: WorkerFinding, worker: WorkerConfig, info: ServerInfo | undefined): void {
  const { path, role } = finding;
  if (info === undefined) {
    finding.warnings.push({
      path,
      message: "the engine does not tell its role, neither at /server_info nor at /get_server_info",
    });
    return;
  }
  setVersion(finding, info.version);
  if (info.role !== undefined) {
    finding.reportedRole = info.role;
    if (info.role !== role) {
      finding.problems.push({
        path,
        message: `wanted ${article(role)} server, got ${article(info.role)} one (disaggregation_mode)${info.role === "aggregated" ? "; was it started without --disaggregation-mode?" : "; are the lists exchanged?"}`,
      });
    }
  }
  if (info.dpSize !== undefined) finding.dpSize = info.dpSize;
  if (role !== "prefill") return;
  const { bootstrapPort, dpSize } = worker;
  if (info.bootstrapPort !== undefined && bootstrapPort !== undefined && info.bootstrapPort !== bootstrapPort) {
    const message = `wanted the server's own bootstrap port ${info.bootstrapPort}, got ${bootstrapPort}`;
    finding.problems.push({ path: `${path}.bootstrapPort`, message });
  }
  if (info.dpSize !== undefined && dpSize !== undefined && info.dpSize !== dpSize) {
    const message = `the server has ${info.dpSize} data-parallel ranks, the configuration says ${dpSize}`;
    finding.warnings.push({ path: `${path}.dpSize`, message });
  }
}

function article(role: Role): string {
  return `${role === "aggregated" ? "an" : "a"} ${role}`;
}

/** The router itself asks there for the engine's ids: without an answer no request can be split. */
async function checkMooncake(finding: WorkerFinding, worker: WorkerConfig, ask: Ask): Promise<void> {
  const { bootstrapHost: host, bootstrapPort: port = BOOTSTRAP_PORT } = worker;
  const told = await ask(`http://${host}:${port}`, "/query");
  const open = !("error" in told);
  finding.bootstrap = { host, port, open };
  if (open && told.status === 200 && readMooncakeRanks(told.json) !== undefined) return;
  finding.problems.push({
    path: `${finding.path}.bootstrapPort`,
    message: `wanted a Mooncake bootstrap server that tells its engine ids at ${host}:${port}/query, got ${open ? `an answer without them (status ${told.status})` : explainReach(told.error)}`,
  });
}

async function checkBootstrap(
  finding: WorkerFinding,
  { host, port }: { host: string; port: number },
  openTcp: OpenTcp,
): Promise<void> {
  const open = await openTcp(host.replace(/^\[|\]$/g, ""), port);
  finding.bootstrap = { host, port, open };
  if (open) return;
  // Decode must reach it, not the router: from here a closed port is a hint, not a proof.
  finding.warnings.push({
    path: `${finding.path}.bootstrapPort`,
    message: `${host}:${port} is not open from here; decode must be able to reach it (bootstrapHost, a firewall, or the server's --disaggregation-bootstrap-port)`,
  });
}

const TCP_PATIENCE_MS = 2000;

/** `OpenTcp` over the system's sockets. */
export function openTcpConnection(host: string, port: number): Promise<boolean> {
  return new Promise(function tryConnect(resolve) {
    const socket = connect({ host, port });
    const settle = (open: boolean): void => {
      socket.destroy();
      resolve(open);
    };
    socket.setTimeout(TCP_PATIENCE_MS, () => settle(false));
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}
