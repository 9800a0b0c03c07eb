import { emptyState, type State } from "../../src/dashboard/client/state.ts";
import type { RequestRow, WorkerCard } from "../../src/dashboard/update.ts";

export const NOW = Date.UTC(2026, 10, 30, 4, 30);

/** A good streamed request over two legs sent at once: prefill 100 ms, first token at 110, over at 600. */
export function row(changes: Partial<RequestRow> = {}): RequestRow {
  return {
    key: 1,
    id: "req-1",
    at: NOW - 10_000,
    route: "/v1/chat/completions",
    model: "m",
    stream: true,
    path: "disaggregated",
    pool: "default",
    prefill: "p1",
    decode: "d1",
    status: 200,
    outcome: "success",
    attempts: 1,
    admitted: 0,
    prefillSent: 1,
    prefillDone: 100,
    decodeSent: 1,
    decodeHeaders: 105,
    firstToken: 110,
    finished: 600,
    bytesIn: 100,
    bytesOut: 1_000,
    ...changes,
  };
}

export function lateRow(changes: Partial<RequestRow> = {}): RequestRow {
  return row({
    outcome: "prefill_failed",
    failed: "late",
    code: "prefill_unreachable",
    stage: "prefill",
    late: "reset",
    lateWhen: "streaming",
    errorFrame: true,
    prefillDone: 300,
    finished: 300,
    ...changes,
  });
}

export function worker(name: string, changes: Partial<WorkerCard> = {}): WorkerCard {
  return {
    name,
    role: name.startsWith("p") ? "prefill" : "decode",
    usable: true,
    healthy: true,
    breaker: "closed",
    draining: false,
    requests: 0,
    tokens: 0,
    weight: 1,
    avoidedS: 0,
    ...changes,
  };
}

/** A state that has just heard from a router with these workers; `minutes`: the last ones of the hour, as the router counts them. */
export function stateWith(workers: WorkerCard[], rows: RequestRow[] = [], minutes: number[][] = []): State {
  const counts = [...Array.from({ length: 60 - minutes.length }, () => [0, 0, 0, 0, 0, 0]), ...minutes];
  return {
    ...emptyState(),
    heardAt: NOW,
    models: [
      {
        id: "m",
        aliases: [],
        ready: true,
        reason: null,
        pools: [
          {
            name: "default",
            engine: "sglang",
            region: null,
            serving: true,
            policies: { prefill: "prefix-aware", decode: "least-load" },
            workers,
          },
        ],
      },
    ],
    minutes: { from: NOW - 59.5 * 60_000, counts },
    requests: new Map(rows.map((entry) => [entry.key, entry])),
  };
}
