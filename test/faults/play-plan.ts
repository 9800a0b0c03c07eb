import { createRouter, type PrefillRouter } from "../../src/create-router.ts";
import type { Worker } from "../../src/workers/worker.ts";
import { ManualClock, settled } from "../manual-clock.ts";
import { type Expectation, judge, type Seen } from "./oracle.ts";
import { bodyScript, type LegPlan, type Plan, prefillScript, type StreamScript, streamScript } from "./plans.ts";
import { answerBody, errorEvent, paths, requestBody } from "./streams.ts";
import { type LegScript, VirtualEngines } from "./virtual-engine.ts";

/** Far above everything a plan can last, so that only silence meets them. */
const limits = { prefillMs: 9_000, firstTokenMs: 8_000, idleMs: 7_000, totalMs: 11_000, tailMs: 3_000 };
/** Nothing may still be open so long after the client's part is over: `tailMs`, `prefillMs` and the fixed two seconds are below it. */
const LAST_STEP_MS = 50;
const AFTERWARDS_MS = 15_000;

/** Plays a plan in-process. Throws what does not hold. */
export async function playPlan(plan: Plan): Promise<void> {
  const { mode, api, stream, lineEnd } = plan;
  const clock = new ManualClock();
  const decodes = plan.decode.map((leg) => (stream ? streamScript(leg, api, lineEnd) : undefined));
  const engines = new VirtualEngines(clock, script);
  const router = makeRouter(plan, clock, engines);

  function script(worker: string, body: string, count: number): LegScript {
    const turn = Math.min(1, count);
    if (worker === "prefill") return prefillScript(plan.prefill[turn]!, mode, api, engines.requests.length).script;
    // A release request wants one token, not a stream.
    if (stream && body.includes('"stream":true')) return decodes[turn]!.script;
    return bodyScript(plan.decode[turn]!, api).script;
  }

  const client = new VirtualClient(plan, router, clock);
  await passTime(clock, () => client.over);
  if (!client.over) throw new Error("the client waits for ever");
  if (!client.left) judge(client.seen(), expectationOf(plan, engines, decodes as StreamScript[]));
  if (client.leftEarly && plan.cancel === "anytime") {
    // A prefill that runs first and alone has the time of an engine's last step, in which it cannot be stopped.
    if (isSequential(plan)) await clock.advance(LAST_STEP_MS);
    judgeHangUp(plan, engines, client.leftAt);
  }
  judgeHandoffs(plan, engines, client);
  await clock.advance(AFTERWARDS_MS);
  judgeRest(router, engines, clock);
}

function makeRouter(plan: Plan, clock: ManualClock, transport: VirtualEngines): PrefillRouter {
  const { mode, cancel, lateFailure, retries, settleMs, keepAliveMs } = plan;
  const workers =
    mode === "aggregated"
      ? { engine: "openai", workers: [{ url: "http://decode" }] }
      : {
          engine: mode,
          cancel,
          prefill: [{ url: "http://prefill", bootstrapPort: 8998 }],
          decode: [{ url: "http://decode" }],
        };
  const router = createRouter({
    config: {
      models: [{ id: "m", pools: [{ name: "default", ...workers }] }],
      policy: { prefill: "round-robin", decode: "round-robin" },
      lateFailure,
      timeouts: { ...limits, settleMs, keepAliveMs, connectMs: 0, handoffMs: 0 },
      retries: { maxRetries: retries ? 1 : 0, backoffMs: 5 },
      breaker: { enabled: false },
      health: { intervalMs: 0 },
      log: { level: "silent" },
    },
    clock,
    transport,
  });
  router.tendsWithRequests = false;
  return router;
}

/** A client on the test's clock: reads with pauses, and leaves when the plan says so. */
class VirtualClient {
  over = false;
  left = false;
  /** It left before the router had all of its answer. */
  leftEarly = false;
  leftAt = 0;
  readonly #router: PrefillRouter;
  readonly #plan: Plan;
  readonly #clock: ManualClock;
  readonly #abort = new AbortController();
  readonly #chunks: Uint8Array[] = [];
  #response: Response | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #whole = false;
  #flaw = "";

  constructor(plan: Plan, router: PrefillRouter, clock: ManualClock) {
    this.#plan = plan;
    this.#clock = clock;
    this.#router = router;
    const request = new Request(`http://router${paths[plan.api]}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: requestBody(plan.api, plan.stream),
      signal: this.#abort.signal,
    });
    if (plan.leavesAt !== undefined) clock.after(plan.leavesAt, () => this.#leave());
    void this.#read(Promise.resolve(router.fetch(request)));
  }

  seen(): Seen {
    const { status, headers } = this.#response!;
    return { status, headers, body: Buffer.concat(this.#chunks), whole: this.#whole, flaw: this.#flaw };
  }

  async #read(pending: Promise<Response>): Promise<void> {
    try {
      this.#response = await pending;
      this.#reader = this.#response.body!.getReader();
      if (this.left) return this.#stop();
      for (let at = 0; ; at++) {
        const { done, value } = await this.#reader.read();
        if (done) break;
        this.#chunks.push(value);
        const pause = this.#plan.pauses[at % this.#plan.pauses.length]!;
        if (pause > 0) await new Promise<void>((resolve) => void this.#clock.after(pause, resolve));
        if (this.left) return;
      }
      this.#whole = true;
    } catch (error) {
      this.#flaw = String(error);
    }
    this.over = true;
  }

  #leave(): void {
    if (this.over) return;
    this.left = true;
    this.leftEarly = this.#router.active() > 0;
    this.leftAt = this.#clock.now();
    if (this.#plan.leaves !== "cancel" || this.#response === undefined) this.#abort.abort();
    if (this.#plan.leaves !== "signal") this.#stop();
    this.over = true;
  }

  #stop(): void {
    this.#reader?.cancel().catch(() => {});
  }
}

/** Moves the clock from timer to timer until `done`. */
async function passTime(clock: ManualClock, done: () => boolean): Promise<void> {
  await settled();
  while (!done() && clock.timers.size > 0) {
    let next = Number.POSITIVE_INFINITY;
    for (const { at } of clock.timers) if (at < next) next = at;
    await clock.advance(Math.max(0, next - clock.time));
  }
}

/** What may have become of the request, as far as the plan alone can tell. */
function expectationOf(plan: Plan, engines: VirtualEngines, decodes: readonly StreamScript[]): Expectation {
  const { api, stream, retries, keepAliveMs } = plan;
  const tries = engines.requests.filter(({ worker }) => worker === "decode").length;
  const turn = Math.max(0, Math.min(1, tries - 1));
  const played = decodes[turn];
  const expectation: Expectation = {
    api,
    stream,
    mayEndWell: true,
    mayFail: true,
    as: "either",
    events: played?.events ?? [],
    delivered: tries === 0 ? 0 : (played?.delivered ?? 0),
    keepAlive: keepAliveMs > 0,
    body: answerBody(api),
  };
  if (played?.failedInside === true) expectation.ownFrame = relinedError(plan);
  if (!retries) {
    const well = endsWell(plan, decodes[0]);
    expectation.mayEndWell = well !== false;
    expectation.mayFail = well !== true;
  }
  return expectation;
}

/** true: it must; false: it must not; undefined: both are right, it depends on who comes first. */
function endsWell(plan: Plan, played: StreamScript | undefined): boolean | undefined {
  const { mode, api, stream } = plan;
  const [leg] = plan.decode;
  const answers = leg.start === "answers" && leg.status === 200;
  const decodeWell = answers && (stream ? played!.finished : leg.ending === "clean" && bodyScript(leg, api).good);
  if (mode === "aggregated") return decodeWell;
  const prefill = prefillScript(plan.prefill[0], mode, api, 0);
  if (mode !== "sglang") return prefill.good && decodeWell;
  if (!decodeWell) return false;
  if (prefill.good) return true;
  if (isSilent(plan.prefill[0])) return plan.settleMs > 0 || stream ? true : undefined;
  if (plan.lateFailure === "definitive") return undefined;
  const finishMs = stream ? played!.finishMs : bodyMs(leg, api);
  const { showsMs, failsMs } = prefillFailure(plan.prefill[0], prefill.doneMs);
  // The last byte that decode needs comes after prefill has failed: nobody can have the whole answer.
  if (finishMs > failsMs) return false;
  const reads = plan.pauses.every((pause) => pause === 0);
  return reads && showsMs > finishMs + plan.settleMs + 1 ? true : undefined;
}

/** A status says that prefill has failed; its words are waited for, two seconds at most. */
function prefillFailure(leg: LegPlan, doneMs: number): { showsMs: number; failsMs: number } {
  const answers = leg.start === "answers" && leg.status !== 200;
  return answers
    ? { showsMs: leg.headMs, failsMs: Math.min(doneMs, leg.headMs + 2_000) }
    : { showsMs: doneMs, failsMs: doneMs };
}

function bodyMs(leg: LegPlan, api: Plan["api"]): number {
  const { script } = bodyScript(leg, api);
  return script.pieces.reduce((sum, { afterMs }) => sum + afterMs, script.headMs) + script.endMs;
}

function isSilent(leg: LegPlan): boolean {
  return leg.start === "silence" || (leg.start === "answers" && leg.status === 200 && leg.ending === "silence");
}

function relinedError({ api, lineEnd, decode }: Plan): Buffer {
  const event = decode.some(({ inside }) => inside === "error") ? errorEvent(api).toString("utf8") : "";
  return Buffer.from(event.replaceAll("\n", lineEnd));
}

function isSequential({ mode }: Plan): boolean {
  return mode === "vllm" || mode === "trtllm";
}

/** `anytime`: what is open when the client has left is closed in the same instant; only a hand-off may still be delivered. */
function judgeHangUp(plan: Plan, engines: VirtualEngines, leftAt: number): void {
  for (const { worker, at } of engines.open) {
    if (isSequential(plan) && worker === "decode") continue;
    throw new Error(`${worker} is still open after the client has left at ${leftAt} (request of ${at})`);
  }
}

/** A hand-off is read once, and never left lying when its client has gone (contract section 6). */
function judgeHandoffs(plan: Plan, engines: VirtualEngines, client: VirtualClient): void {
  if (plan.mode !== "vllm" && plan.mode !== "trtllm") return;
  if (plan.mode === "vllm") {
    const readers = new Map<string, number>();
    for (const { worker, body, script } of engines.requests) {
      const id = /"remote_request_id":"(rr-\d+)"/.exec(body)?.[1];
      if (worker !== "decode" || id === undefined) continue;
      if (readers.has(id)) throw new Error(`the hand-off ${id} was sent twice`);
      if (script.start !== "refused") readers.set(id, 1);
    }
  }
  const { good, doneMs } = prefillScript(plan.prefill[0], plan.mode, plan.api, 0);
  const sent = engines.requests[0];
  if (!client.left || !good || sent === undefined || plan.retries) return;
  const given = sent.at + doneMs < client.leftAt;
  const delivered = engines.requests.some(({ worker }) => worker === "decode");
  if (given && !delivered) throw new Error("the client has left, and the hand-off was never delivered");
}

/** At the end of everything: no socket, no load, no request, no timer. */
function judgeRest(router: PrefillRouter, engines: VirtualEngines, clock: ManualClock): void {
  const open = engines.open.map(({ worker }) => worker);
  if (open.length > 0) throw new Error(`left open: ${open.join(", ")}`);
  if (router.active() > 0) throw new Error(`${router.active()} requests are still in progress`);
  for (const { name, load } of workersOf(router)) {
    if (load.requests !== 0 || load.tokens !== 0) throw new Error(`${name} still has a load of ${load.requests}`);
  }
  if (clock.timers.size > 0) throw new Error(`${clock.timers.size} timers were left running`);
}

function workersOf(router: PrefillRouter): Worker[] {
  return router.services.fleet
    .models()
    .flatMap(({ pools }) => pools.flatMap((pool) => [...pool.prefill, ...pool.decode, ...pool.workers]));
}
