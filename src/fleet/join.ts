import { Failure } from "../errors/failure.ts";
import { type Fleet, JoinError, type Model } from "../workers/fleet.ts";
import type { Pool } from "../workers/pool.ts";
import type { Worker, WorkerRole } from "../workers/worker.ts";
import type { Ask } from "./ask.ts";
import { askServerInfo } from "./engine-facts.ts";
import { freeName } from "./free-name.ts";
import { invalidMember, type JoinBody } from "./join-body.ts";
import type { ServerInfo } from "./server-info.ts";

/**
 * Lets a worker in at run time. What the request leaves open is looked up: the only model and pool there are, else what the engine
 * tells of itself (model, and SGLang's role). Throws a Failure: 400 naming the member, 404 for a model that is not here, 409 for a name
 * or an address that is taken. `random`: where routers share, see `freeName`.
 */
export async function join(fleet: Fleet, body: JoinBody, ask: Ask, random?: () => number): Promise<Worker> {
  const asked = new Asked(body, ask);
  const model = await modelFor(fleet, body, asked);
  const pool = poolFor(model, body);
  const role = body.role ?? (await roleFor(pool, asked));
  checkRole(pool, role, body);
  const name = body.worker.name ?? freeName(fleet, role, random);
  try {
    return fleet.add({ model: model.id, pool: pool.name, role, worker: { ...body.worker, name } }, body.apiKey);
  } catch (error) {
    if (!(error instanceof JoinError)) throw error;
    // The model or pool can have left with a reload while the engine was asked.
    const taken = error.why === "taken";
    throw new Failure(taken ? "conflict" : "not_found", {
      status: taken ? 409 : 404,
      stage: "router",
      message: error.message,
    });
  }
}

/** The engine's own words, asked for at most once. */
class Asked {
  readonly #body: JoinBody;
  readonly #ask: Ask;
  #info: Promise<ServerInfo | undefined> | undefined;

  constructor(body: JoinBody, ask: Ask) {
    this.#body = body;
    this.#ask = ask;
  }

  info(): Promise<ServerInfo | undefined> {
    this.#info ??= this.#askInfo();
    return this.#info;
  }

  async models(): Promise<string[]> {
    const { model } = (await this.info()) ?? {};
    if (model !== undefined) return [model];
    const told = await this.#ask(`${this.#body.worker.url}/v1/models`, this.#body.apiKey);
    const data: unknown =
      told === "unreachable" || told.status !== 200 ? [] : (told.json as { data?: unknown } | null)?.data;
    const entries = Array.isArray(data) ? (data as ({ id?: unknown } | null)[]) : [];
    return entries.map((entry) => entry?.id).filter((id): id is string => typeof id === "string");
  }

  async #askInfo(): Promise<ServerInfo | undefined> {
    const info = await askServerInfo(this.#body.worker.url, this.#body.apiKey, this.#ask);
    return info === "unreachable" ? undefined : info;
  }
}

async function modelFor(fleet: Fleet, body: JoinBody, asked: Asked): Promise<Model> {
  if (body.model !== undefined) {
    const resolved = fleet.resolve(body.model);
    if (resolved !== undefined) return resolved.model;
    throw new Failure("model_not_found", {
      status: 404,
      stage: "router",
      param: "model_id",
      message: `The model "${body.model.slice(0, 200)}" does not exist here`,
    });
  }
  const models = fleet.models();
  if (models.length === 1) return models[0]!;
  const served = await asked.models();
  const found = models.find((model) => served.includes(model.id));
  if (found !== undefined) return found;
  throw invalidMember("model_id", "is needed: there are several models here, and the engine names none of them");
}

function poolFor(model: Model, { pool: name, runtime }: JoinBody): Pool {
  const named = name === undefined ? model.pools : model.pools.filter((pool) => pool.name === name);
  if (named.length === 0) throw invalidMember("pool", `the model "${model.id}" has no such pool`);
  const fitting = runtime === undefined ? named : named.filter((pool) => pool.engine === runtime);
  if (fitting.length === 0) throw invalidMember("runtime", `wanted ${named.map((pool) => pool.engine).join(" or ")}`);
  if (fitting.length > 1)
    throw invalidMember("pool", `is needed, one of ${fitting.map((pool) => pool.name).join(", ")}`);
  return fitting[0]!;
}

async function roleFor(pool: Pool, asked: Asked): Promise<WorkerRole> {
  if (pool.engine !== "sglang") return "aggregated";
  const { role } = (await asked.info()) ?? {};
  if (role !== undefined) return role;
  throw invalidMember("worker_type", "is needed: the engine does not tell its own");
}

function checkRole(pool: Pool, role: WorkerRole, { worker }: JoinBody): void {
  if (role === "aggregated") return;
  if (pool.engine === "openai") throw invalidMember("worker_type", 'the pool\'s engine "openai" cannot split');
  if (pool.connector !== "nixl-push" || role !== "prefill") return;
  // Decode is told where prefill is before prefill has said a word (as for workers in the configuration).
  if (worker.engineId === undefined) throw invalidMember("engine_id", 'is needed with connector "nixl-push"');
  if (worker.kvHost === undefined) throw invalidMember("kv_host", 'is needed with connector "nixl-push"');
  if (pool.prefill.some((member) => member.target.engineId === worker.engineId)) {
    throw invalidMember("engine_id", "another worker of the pool has it already");
  }
}
