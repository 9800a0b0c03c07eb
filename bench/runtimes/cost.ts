import type { EngineFleet } from "../stand/engines.ts";
import { PLAIN_LOAD, runLoad } from "../stand/load.ts";
import { cpuSeconds, memoryMb } from "../stand/machine.ts";
import type { LoadPlan, LoadResult } from "../stand/protocol.ts";
import type { Command } from "../stand/router-process.ts";
import { RouterProcess } from "../stand/router-process.ts";
import { GROUPS, ROUTER_PORT } from "../stand/sides.ts";

const WARM_REQUESTS = 4_000;
const SHORT = { tokens: 16, itlMs: 0, chunkBytes: 5 };
/** A usual answer. */
export const ANSWER_TOKENS = 500;

export interface Cost {
  /** First token of a stream for one client, and the same without a router. */
  firstUs: number;
  directUs: number;
  /** CPU microseconds of a short buffered request. */
  requestUs: number;
  /** CPU microseconds of a streamed answer of 500 tokens, at full speed and at 5 ms a token. */
  answerUs: number;
  slowAnswerUs: number;
  startMs: number;
  idleMb: number;
  errors: number;
}

async function directFirstUs(durationMs: number): Promise<number> {
  const port = GROUPS.whole[0]?.ports[0] ?? 0;
  return (await runLoad({ ...PLAIN_LOAD, port, stream: true, clients: 1, durationMs })).firstUs.p50;
}

/** Starts what the command says, measures it, and stops it. */
export async function costOf(what: Command, fleet: EngineFleet, durationMs: number, log: string): Promise<Cost> {
  await fleet.shape(SHORT);
  const router = await RouterProcess.start(what, ROUTER_PORT, log);
  let errors = 0;
  const load = async (plan: Partial<LoadPlan>): Promise<LoadResult & { eachUs: number }> => {
    const before = cpuSeconds(router.pids());
    const result = await runLoad({ ...PLAIN_LOAD, durationMs, ...plan, port: ROUTER_PORT });
    errors += result.errors;
    const spent = cpuSeconds(router.pids()) - before;
    return { ...result, eachUs: (spent * 1e6) / Math.max(1, result.requests) };
  };
  try {
    await load({ requests: WARM_REQUESTS, durationMs: 10_000 });
    await load({ requests: WARM_REQUESTS / 4, durationMs: 10_000, stream: true });
    const idleMb = memoryMb(router.pids(), "VmRSS");
    const directUs = await directFirstUs(durationMs / 2);
    const first = await load({ stream: true, clients: 1 });
    const request = await load({ clients: 32 });
    await fleet.shape({ ...SHORT, tokens: ANSWER_TOKENS });
    const answer = await load({ stream: true, clients: 16 });
    await fleet.shape({ ...SHORT, tokens: ANSWER_TOKENS, itlMs: 5 });
    const slow = await load({ stream: true, clients: 16, requests: 16 });
    return {
      firstUs: first.firstUs.p50,
      directUs,
      requestUs: request.eachUs,
      answerUs: answer.eachUs,
      slowAnswerUs: slow.eachUs,
      startMs: router.startMs,
      idleMb,
      errors,
    };
  } finally {
    await router.stop();
  }
}

/** Medians of the rounds, field by field. */
export function medianCost(costs: readonly Cost[]): Cost {
  const middle = (field: keyof Cost) => costs.map((cost) => cost[field]).sort((a, b) => a - b)[costs.length >> 1] ?? 0;
  const fields = Object.keys(costs[0] ?? {}) as (keyof Cost)[];
  return Object.fromEntries(fields.map((field) => [field, middle(field)])) as unknown as Cost;
}
