import type { ModelCard, PoolCard, RequestRow, WorkerCard } from "../update.ts";
import { count, plural, timeOfDay } from "./format.ts";
import type { State } from "./state.ts";
import { faultyWorker, sinceText, workersOf } from "./verdict.ts";
import { h, type VNode } from "./vnode.ts";

const SHOWN_CHANGES = 6;

interface FleetFacts {
  now: number;
  /** The most any worker has in hand: full width of a load bar. */
  most: number;
  failures: ReadonlyMap<string, number>;
}

/** Pools with prefill on the left and decode on the right, as the work flows. `now`: the router's clock. */
export function fleetView(state: State, rows: readonly RequestRow[], now: number): VNode {
  const failures = new Map<string, number>();
  for (const row of rows) {
    const name = faultyWorker(row);
    if (name !== "") failures.set(name, (failures.get(name) ?? 0) + 1);
  }
  const most = Math.max(4, ...workersOf(state).map((worker) => worker.requests));
  const facts: FleetFacts = { now, most, failures };
  return h("section", { class: "fleet", "aria-labelledby": "fleet-title", key: "fleet" }, [
    h("h2", { id: "fleet-title" }, "Fleet"),
    ...state.models.map((model) => modelView(model, facts)),
    changesView(state),
  ]);
}

function modelView(model: ModelCard, facts: FleetFacts): VNode {
  const aliases = model.aliases.length > 0 ? `also ${model.aliases.join(", ")}` : "";
  return h("article", { class: "model", key: model.id }, [
    h("h3", {}, [
      h("span", { class: "dot", "data-level": model.ready ? "good" : "bad", "aria-hidden": "true" }),
      h("span", {}, model.id),
      h("span", { class: "note" }, model.ready ? aliases : `not ready: ${model.reason ?? ""}`),
    ]),
    ...model.pools.map((pool) => poolView(pool, facts)),
  ]);
}

function poolView(pool: PoolCard, facts: FleetFacts): VNode {
  const of = (role: WorkerCard["role"]): WorkerCard[] => pool.workers.filter((worker) => worker.role === role);
  const split = of("prefill").length + of("decode").length > 0;
  return h("div", { class: "pool", key: pool.name, role: "group", "aria-label": `Pool ${pool.name}` }, [
    h("p", { class: "pool-name" }, [
      h("strong", {}, pool.name),
      h("span", { class: "note" }, [pool.engine, pool.region].filter((text) => text !== null).join(", ")),
    ]),
    split &&
      h("div", { class: "lanes" }, [
        column("prefill", `Prefill, ${pool.policies.prefill}`, of("prefill"), facts),
        h("span", { class: "flow", "aria-hidden": "true" }, "→"),
        column("decode", `Decode, ${pool.policies.decode}`, of("decode"), facts),
      ]),
    of("aggregated").length > 0 && column("aggregated", `Aggregated, ${pool.policies.decode}`, of("aggregated"), facts),
  ]);
}

function column(role: string, title: string, workers: readonly WorkerCard[], facts: FleetFacts): VNode {
  return h("div", { class: "column", "data-role": role }, [
    h("h4", {}, title),
    h(
      "ul",
      {},
      workers.map((worker) => workerView(worker, facts)),
    ),
    workers.length === 0 && h("p", { class: "note" }, "none configured"),
  ]);
}

/** What one word says of a worker, and how bad that is. */
function stateOf(worker: WorkerCard): { level: "good" | "warn" | "bad" | "unknown"; text: string } {
  if (!worker.healthy) return { level: "bad", text: "unhealthy" };
  if (worker.breaker === "open") return { level: "bad", text: "breaker open" };
  if (worker.breaker === "half-open") return { level: "warn", text: "being tried" };
  if (worker.draining) return { level: "unknown", text: "draining" };
  if (worker.avoidedS > 0) return { level: "warn", text: "busy" };
  return { level: "good", text: "usable" };
}

function workerView(worker: WorkerCard, { now, most, failures }: FleetFacts): VNode {
  const { level, text } = stateOf(worker);
  const failed = failures.get(worker.name) ?? 0;
  const since = sinceText(worker.sickSince, now);
  const load = `${plural(worker.requests, "request")}${worker.tokens > 0 ? `, ${count(worker.tokens)} prompt tokens` : ""}`;
  return h("li", { class: "worker", "data-level": level, key: worker.name }, [
    h("div", { class: "worker-head" }, [h("strong", {}, worker.name), h("span", { class: "state" }, text)]),
    since !== "" && h("p", { class: "since" }, since.trim()),
    h("div", { class: "load", "aria-hidden": "true" }, [
      h("i", { style: { width: `${((100 * worker.requests) / most).toFixed(1)}%` } }),
    ]),
    h("p", { class: "note" }, [
      h("span", {}, load),
      failed > 0 && h("span", { class: "failures" }, plural(failed, "failure")),
    ]),
    worker.url !== undefined && h("p", { class: "note address" }, worker.url),
  ]);
}

function changesView(state: State): VNode | undefined {
  if (state.changes.length === 0) return undefined;
  return h("div", { class: "changes", key: "changes of workers" }, [
    h("h3", {}, "Changes"),
    h(
      "ol",
      {},
      state.changes
        .slice(0, SHOWN_CHANGES)
        .map(({ at, worker, what }) =>
          h("li", {}, [h("time", {}, timeOfDay(at)), h("strong", {}, worker), h("span", {}, what)]),
        ),
    ),
  ]);
}
