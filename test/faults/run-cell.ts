import type { RouterServer } from "../../src/runtime/server.ts";
import { type Cell, nameOf } from "./cells.ts";
import { deadUrl, ScriptedEngine } from "./engine.ts";
import { expected } from "./expect.ts";
import { judge } from "./oracle.ts";
import { playBuffered, playPrefill, playStream } from "./play.ts";
import { RawClient } from "./raw-client.ts";
import { atRest, serveRouter, stopAll, workersOf } from "./served-router.ts";
import { paths, requestBody } from "./streams.ts";

/** Short, yet far enough apart that it can be told which one has struck. */
export const limits = { prefillMs: 900, firstTokenMs: 700, idleMs: 500, totalMs: 1_200, connectMs: 2_000 };
/** What a busy machine may add. */
const SLACK_MS = 2_500;
/** The longest that a leg may outlive a good answer: `tailMs`, or the fixed two seconds of a lingering decode. */
const LINGER_MS = 2_000;

/** Plays one cell over real sockets. Resolves to undefined when everything holds, else to what does not. */
export async function runCell(cell: Cell): Promise<string | undefined> {
  const { mode, api, stream, leg, fault, phase } = cell;
  const verdict = expected(cell);
  const reached = { answers: signal(), finish: signal(), everything: signal() };
  const ours = { cell: crypto.randomUUID() };
  const begun = signal();
  const over = signal();
  const prefillFault = leg === "prefill" ? fault : undefined;
  const decodeFault = leg === "decode" ? fault : undefined;

  const decode = await ScriptedEngine.start(async function decode(wire) {
    if (leg === "prefill" && phase === "early" && mode === "sglang" && mayStayOpen(cell)) return await wire.silence();
    const play = stream ? playStream : playBuffered;
    await play(wire, api, decodeFault, (what) => {
      reached[what].resolve();
      // Decode has said two answers and then nothing more, so that the frame is all that can come.
      if (what !== "answers") return undefined;
      if (leg === "prefill" && phase === "streaming" && !goesOn(cell)) return wire.silence();
      // What decode has said must have reached the client: a runtime may drop bytes that a broken end overtakes.
      return wire.until(begun.promise);
    });
  }, ours);
  const prefill = await ScriptedEngine.start(async function prefill(wire) {
    if (cell.prefillOpen) return await wire.silence();
    if (mode === "sglang" && prefillFault !== undefined) {
      if (phase === "streaming") await wire.until(Promise.all([reached.answers.promise, begun.promise]));
      if (phase === "settling") await wire.until((stream ? reached.finish : reached.everything).promise);
      if (phase === "over") await wire.until(over.promise);
      if (phase !== "early") await wire.pause(40);
    }
    await playPrefill(wire, mode, api, prefillFault);
  }, ours);
  const dead = fault.point === "connect" ? deadUrl : undefined;
  const server = serve(
    cell,
    (leg === "prefill" ? dead : undefined) ?? prefill.url,
    (leg === "decode" ? dead : undefined) ?? decode.url,
  );
  try {
    const client = new RawClient({
      port: server.port,
      path: paths[api],
      body: requestBody(api, stream),
      headers: { "x-cell": ours.cell },
    });
    void client.until(1).then(begun.resolve);
    const seen = await client.answer(8_000);
    over.resolve();
    judge(seen, verdict.expectation);
    const limit = verdict.limit === undefined ? 0 : limits[verdict.limit];
    if (seen.tookMs < limit - 30) throw new Error(`answered after ${seen.tookMs} ms, before the limit of ${limit} ms`);
    if (seen.tookMs > limit + SLACK_MS) throw new Error(`answered after ${seen.tookMs} ms, the limit was ${limit} ms`);
    await atRest(server, [prefill, decode], LINGER_MS + SLACK_MS);
    for (const exchange of decode.exchanges) {
      if (exchange.request.target !== paths[api]) throw new Error(`decode was asked ${exchange.request.target}`);
    }
    if (!verdict.decodeRequests.includes(decode.exchanges.length)) {
      throw new Error(
        `decode saw ${decode.exchanges.length} requests, expected ${verdict.decodeRequests.join(" or ")}`,
      );
    }
    const { blame } = verdict;
    for (const worker of workersOf(server)) {
      const due = worker.role === "prefill" ? blame.prefill : blame.decode;
      const { failures } = worker.breaker;
      if (due !== "either" && failures !== due)
        throw new Error(`the breaker of ${worker.name} counted ${failures} failures, expected ${due}`);
    }
    return undefined;
  } catch (error) {
    return `${nameOf(cell)}\n  ${(error as Error).message}`;
  } finally {
    over.resolve();
    await stopAll(server, [prefill, decode]);
  }
}

/** Prefill's fault ends the request although decode has not said a word; where it is no fault, decode has to answer. */
function mayStayOpen(cell: Cell): boolean {
  return !expected(cell).expectation.mayEndWell;
}

function goesOn(cell: Cell): boolean {
  return expected(cell).expectation.mayEndWell;
}

function serve(cell: Cell, prefillUrl: string, decodeUrl: string): RouterServer {
  const { mode, phase, definitive, fault } = cell;
  const held = phase === "settling" && fault.kind !== "silence";
  return serveRouter({
    mode,
    prefill: [prefillUrl],
    decode: [decodeUrl],
    config: {
      lateFailure: definitive ? "definitive" : "any",
      timeouts: { ...limits, settleMs: held ? 5_000 : 60, tailMs: phase === "over" ? 3_000 : 300 },
    },
  });
}

function signal(): { promise: Promise<void>; resolve: () => void } {
  return Promise.withResolvers<void>();
}
