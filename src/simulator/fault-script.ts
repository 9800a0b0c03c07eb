import type { Clock } from "../runtime/clock.ts";
import type { Fault } from "./faults.ts";
import { type Ending, type Script, type SimRequest, type Step, silentScript } from "./script.ts";
import { orLeft, sleep } from "./time.ts";

/** Faults of the connection, whatever is said on it. The others are faults of content and belong to the shapes. */
const endings: Partial<Record<Fault["kind"], Ending>> = {
  reset: "rst",
  hang: "hang",
  fin: "fin",
  cut: "fin",
  silence: "hang",
};

/**
 * Lets a fault of the connection strike an answer. `work` makes the answer and starts only when it may be needed; the
 * signal it is given aborts when the fault strikes first, as a dying engine frees what it held. `refusal` makes the
 * engine's own answer to a `status` fault; with a time it comes then, whatever the work has done until there.
 */
export async function strikeConnection(
  fault: Fault,
  request: SimRequest,
  clock: Clock,
  work: (signal: AbortSignal) => Promise<Script>,
  refusal: (fault: Fault) => Script,
): Promise<Script> {
  if (fault.kind === "status" && fault.atMs === undefined) return refusal(fault);
  if (fault.kind === "delay") {
    await sleep(clock, fault.argument ?? fault.atMs ?? 0, request.signal);
    return work(request.signal);
  }
  const ending = fault.kind === "status" ? "clean" : endings[fault.kind];
  if (ending === undefined) return work(request.signal);
  const early = (fault.kind === "reset" || fault.kind === "hang") && fault.atMs === undefined && !fault.atEvent;
  if (early) return silentScript(ending);

  const dying = new AbortController();
  const signal = AbortSignal.any([request.signal, dying.signal]);
  if (fault.atMs === undefined) return strikeAtEvent(fault, ending, await work(signal), dying);
  const final = fault.kind === "status" ? refusal(fault) : silentScript(ending);
  return strikeAtTime(fault.atMs, final, request, clock, work(signal), dying);
}

async function strikeAtEvent(fault: Fault, ending: Ending, script: Script, dying: AbortController): Promise<Script> {
  const after = fault.atEvent ?? 2;
  const struck: Script = { ...script, ending };
  // A buffered answer with its full length would look whole: without content-length only the terminator ends it.
  const buffered = script.headers.some(([name]) => name === "content-length");
  if (buffered && fault.kind === "fin") struck.headers = withoutLength(script);
  async function* steps(): AsyncGenerator<Step> {
    let seen = 0;
    try {
      for await (const step of script.steps) {
        if (fault.kind === "cut" && (buffered || seen === after)) {
          yield { ...step, bytes: half(step.bytes) };
          return;
        }
        if (seen >= after) return;
        if (buffered && fault.kind !== "fin") {
          yield { ...step, bytes: half(step.bytes) };
          return;
        }
        yield step;
        seen += 1;
      }
    } finally {
      dying.abort();
    }
  }
  struck.steps = steps();
  return struck;
}

async function strikeAtTime(
  atMs: number,
  final: Script,
  request: SimRequest,
  clock: Clock,
  work: Promise<Script>,
  dying: AbortController,
): Promise<Script> {
  const bell = sleep(clock, atMs, request.signal);
  bell.catch(ignore);
  const late = Symbol("late");
  const rung = bell.then(() => late);
  const first = await orLeft(Promise.race([work, rung]), request.signal);
  if (typeof first === "symbol") {
    dying.abort();
    work.catch(ignore);
    return final;
  }
  const buffered = first.headers.some(([name]) => name === "content-length");
  if (buffered) {
    // The answer was ready before the fault: it must not get out, or the fault would strike nothing.
    await bell;
    return final;
  }
  async function* steps(script: Script): AsyncGenerator<Step> {
    const iterator = toIterator(script.steps);
    try {
      for (;;) {
        const next = iterator.next();
        next.catch(ignore);
        const result = await Promise.race([next, rung]);
        if (typeof result === "symbol") return;
        if (result.done) {
          await bell;
          return;
        }
        yield result.value;
      }
    } finally {
      dying.abort();
      void iterator.return?.()?.catch(ignore);
    }
  }
  // A status can no longer be sent on a stream that has begun: the connection breaks instead.
  return { ...first, ending: final.ending === "clean" ? "rst" : final.ending, steps: steps(first) };
}

function toIterator(steps: Script["steps"]): AsyncIterator<Step> {
  if (Symbol.asyncIterator in steps) return steps[Symbol.asyncIterator]();
  return fromList(steps);
}

async function* fromList(steps: readonly Step[]): AsyncGenerator<Step> {
  yield* steps;
}

function withoutLength(script: Script): Script["headers"] {
  return script.headers.filter(([name]) => name !== "content-length");
}

function half(bytes: Step["bytes"]): Step["bytes"] {
  const whole = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
  return whole.slice(0, Math.max(1, whole.byteLength >> 1));
}

function ignore(): void {}
