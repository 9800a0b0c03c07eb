import { expect, test } from "bun:test";
import type { Api } from "../../src/sse/api.ts";
import type { Fault, Kind, Point } from "./cells.ts";
import { deadUrl, ScriptedEngine } from "./engine.ts";
import { judge } from "./oracle.ts";
import { playBuffered, playPrefill, playStream } from "./play.ts";
import type { Mode } from "./prefill-answers.ts";
import { ask } from "./raw-client.ts";
import { atRest, serveRouter, stopAll, workersOf } from "./served-router.ts";
import { answerBody, answerEvents, paths, requestBody } from "./streams.ts";

interface Retry {
  mode: Mode;
  api: Api;
  stream: boolean;
  leg: "prefill" | "decode";
  fault: Fault;
}

const faults: readonly (readonly [Point, readonly Kind[]])[] = [
  ["connect", ["refuse"]],
  ["headers", ["rst", "fin", "garbage", 400, 429, 500, 503]],
  ["body", ["rst", "fin", "garbage", "error", "abort"]],
];

function table(): Retry[] {
  const cells: Retry[] = [];
  for (const mode of ["sglang", "vllm", "trtllm", "aggregated"] as const) {
    for (const api of ["chat", "completions"] as const) {
      for (const stream of [true, false]) {
        for (const leg of mode === "aggregated" ? (["decode"] as const) : (["prefill", "decode"] as const)) {
          for (const [point, kinds] of faults) {
            for (const kind of kinds) cells.push({ mode, api, stream, leg, fault: { point, kind } });
          }
        }
      }
    }
  }
  return cells;
}

/** Whether another worker is tried (contract, `retries`): transport faults, 502 and its kin, hand-offs that cannot be used. */
function isTriedAgain({ fault: { kind } }: Retry): boolean {
  switch (kind) {
    // A request that no worker would take, or that another one would fail as well.
    case 400:
    case 429:
    case "error":
      return false;
    // Decode's 500 may be a failed pull of the KV blocks, so it is asked once more with a fresh prefill; this one says it again.
    case 500:
      return false;
    default:
      return true;
  }
}

async function play(cell: Retry): Promise<void> {
  const { mode, api, stream, leg, fault } = cell;
  // Requests that a healthy prefill has: only for those can a decode that runs beside it speak.
  const prefilled = new Set<string>();
  const prefill = (broken: boolean) =>
    ScriptedEngine.start(async (wire, { request }) => {
      if (!broken) prefilled.add(request.headers.get("x-request-id") ?? "");
      await playPrefill(wire, mode, api, broken ? fault : undefined);
    });
  const decode = (broken: boolean) =>
    ScriptedEngine.start(async (wire, { request }) => {
      const id = request.headers.get("x-request-id") ?? "";
      while (mode === "sglang" && leg === "prefill" && !prefilled.has(id)) await wire.pause(3);
      await (stream ? playStream : playBuffered)(wire, api, broken ? fault : undefined, () => undefined);
    });
  const [brokenPrefill, prefill2, brokenDecode, decode2] = await Promise.all([
    prefill(leg === "prefill"),
    prefill(false),
    decode(leg === "decode"),
    decode(false),
  ]);
  const engines = [brokenPrefill, prefill2, brokenDecode, decode2];
  const refused = fault.kind === "refuse";
  const server = serveRouter({
    mode,
    prefill: [refused && leg === "prefill" ? deadUrl : brokenPrefill.url, prefill2.url],
    decode: [refused && leg === "decode" ? deadUrl : brokenDecode.url, decode2.url],
    config: { retries: { maxRetries: 2, backoffMs: 5 } },
  });
  try {
    const again = isTriedAgain(cell);
    const events = answerEvents(api);
    const seen = await ask({ port: server.port, path: paths[api], body: requestBody(api, stream), limitMs: 8_000 });
    judge(seen, {
      api,
      stream,
      mayEndWell: again,
      mayFail: !again,
      as: "status",
      events,
      delivered: events.length,
      body: answerBody(api),
    });
    await atRest(server, engines, 3_000);
    for (const engine of engines) {
      const ids = engine.exchanges.map(({ request }) => request.headers.get("x-request-id"));
      if (new Set(ids).size !== ids.length) throw new Error("an id was used twice");
    }
    for (const [what, pattern] of [
      ["room", /"bootstrap_room":(\d+)/],
      ["hand-off", /"disagg_request_id":(\d+)/],
    ] as const) {
      for (const side of [engines.slice(0, 2), engines.slice(2)]) {
        const used = side.flatMap((engine) =>
          engine.exchanges.flatMap(({ request }) => pattern.exec(request.body)?.[1] ?? []),
        );
        // Of TensorRT-LLM's scripted hand-offs all have one id; its own requests do not.
        if (side[0] !== brokenPrefill && what === "hand-off") continue;
        if (new Set(used).size !== used.length) throw new Error(`a ${what} was used twice`);
      }
    }
    for (const worker of workersOf(server)) {
      const isBroken = worker.name.endsWith("-1") && (worker.role === "prefill") === (leg === "prefill");
      const neutral = [400, 429, 503].includes(fault.kind as number);
      const { failures } = worker.breaker;
      if (!isBroken && failures > 0) throw new Error(`${worker.name} is blamed for what the other did`);
      if (isBroken && neutral && failures > 0) throw new Error(`${worker.name} is blamed for a client's fault`);
      if (isBroken && !neutral && failures === 0) throw new Error(`${worker.name} is not blamed`);
    }
  } finally {
    await stopAll(server, engines);
  }
}

test("a fault before the commit is tried elsewhere with fresh ids, or is the client's, and the one that failed is blamed alone", async () => {
  const only = process.env.FAULTS_ONLY ?? "";
  const name = ({ mode, api, stream, leg, fault }: Retry) =>
    `${mode} ${api} ${stream ? "stream" : "buffered"}: ${leg} ${fault.kind} at ${fault.point}, retried`;
  const cells = table().filter((cell) => name(cell).includes(only));
  const failures: string[] = [];
  let next = 0;
  async function work(): Promise<void> {
    for (let cell = cells[next++]; cell !== undefined; cell = cells[next++]) {
      await play(cell).catch((error: Error) => failures.push(`${name(cell!)}\n  ${error.message}`));
    }
  }
  await Promise.all(Array.from({ length: 20 }, work));
  console.log(`${cells.length} cells with retries`);
  expect(failures.slice(0, 40)).toEqual([]);
}, 60_000);
