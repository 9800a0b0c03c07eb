import type { Ask } from "./ask.ts";
import { type EngineError, errorBody, errorEvents, errorScript, flatErrorEvents, Refusal } from "./engine-error.ts";
import type { Fault } from "./faults.ts";
import { generate, type Sample } from "./generate.ts";
import { type JsonRecord, printJson } from "./json.ts";
import { eventStreamScript, jsonScript, type Script, type SimRequest, type Step } from "./script.ts";
import { createShape, type Shape } from "./shapes/shape.ts";
import type { EngineState } from "./state.ts";
import { sleep } from "./time.ts";

/** What a role knows once the prompt's KV blocks are there. */
export interface Ready {
  cached: number;
  /** Non-empty: the blocks are not this prompt's. The answer is fluent, wrong, and a 200. */
  garbage: string;
}

/** One generation as a role wants it performed. */
export interface Run {
  state: EngineState;
  request: SimRequest;
  ask: Ask;
  faults: readonly Fault[];
  /** Waits until the blocks are there. Throws Refusal when they will not come, ClientLeft when nobody waits any more. */
  ready(): Promise<Ready>;
  /** Streams: status and opening event go out before the blocks are there (seen on vLLM). */
  headFirst: boolean;
  /** This engine computes the prompt itself, so it has the prompt's logprobs. */
  inputLogprobs: boolean;
  /** Milliseconds before the first token, once the blocks are there. */
  firstTokenMs: number;
  /** Adds the hand-off to a complete answer. */
  decorate?: (whole: JsonRecord, samples: readonly Sample[], ready: Ready) => JsonRecord;
}

/** Performs a generation: a JSON answer, or a stream of events. */
export async function runGeneration(run: Run): Promise<Script> {
  const broken = findFault(run, "error-json");
  const frame = findFault(run, "error-frame") ?? findFault(run, "flat-error");
  if (broken !== undefined) return jsonScript(200, errorBody(run.state.engine, run.ask.api, injected(broken)));
  if (!run.ask.stream) {
    if (frame !== undefined) return errorScript(run.state.engine, run.ask.api, injected(frame));
    return runWhole(run);
  }
  if (run.headFirst) return streamScript(run, undefined);
  return streamScript(run, await run.ready());
}

async function runWhole(run: Run): Promise<Script> {
  const { state, request } = run;
  const ready = await run.ready();
  const samples = makeSamples(run, ready);
  const longest = Math.max(0, ...samples.map((sample) => sample.tokens.length - 1));
  await sleep(state.clock, run.firstTokenMs + longest * state.timing.itlMs, request.signal);
  const shape = makeShape(run, ready, samples);
  if (shape.items !== undefined) return jsonScript(200, printJson(shape.items()));
  const whole = shape.whole();
  return jsonScript(200, printJson(run.decorate === undefined ? whole : run.decorate(whole, samples, ready)));
}

function streamScript(run: Run, early: Ready | undefined): Script {
  const script: Script = eventStreamScript(steps());

  async function* steps(): AsyncGenerator<Step> {
    for await (const event of streamEvents(run, early, dropConnection)) yield { bytes: event };
  }
  function dropConnection(): void {
    script.ending = "rst";
  }
  return script;
}

async function* streamEvents(run: Run, early: Ready | undefined, drop: () => void): AsyncGenerator<string> {
  const { state, ask, request } = run;
  let ready = early;
  if (ready === undefined) {
    // The opening event depends on nothing that is still unknown.
    const opening = makeShape(run, { cached: 0, garbage: "" }, makeSamples(run, { cached: 0, garbage: "" }));
    yield* opening.open();
    try {
      ready = await run.ready();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return yield* fail(error.error);
    }
  }
  const samples = makeSamples(run, ready);
  const shape = makeShape(run, ready, samples);
  const opening = shape.open();
  if (early !== undefined) yield* opening;

  const frame = findFault(run, "error-frame") ?? findFault(run, "flat-error");
  const started = state.clock.now();
  const longest = Math.max(1, ...samples.map((sample) => sample.tokens.length));
  const unfinished = findFault(run, "no-finish") !== undefined;
  for (let at = 0; at < longest; at++) {
    if (frame !== undefined && isDue(frame, at, state.clock.now() - started))
      return yield* fail(injected(frame), frame);
    await sleep(state.clock, at === 0 ? run.firstTokenMs : state.timing.itlMs, request.signal);
    for (const sample of samples) {
      if (at < sample.tokens.length) yield* shape.token(sample, at);
      if (at === Math.max(0, sample.tokens.length - 1) && !unfinished) yield* shape.finish(sample);
    }
  }
  if (frame !== undefined) return yield* fail(injected(frame), frame);
  yield* shape.usage();
  if (findFault(run, "no-done") === undefined) yield* shape.done();

  function* fail(error: EngineError, fault?: Fault): Generator<string> {
    const flat = fault?.kind === "flat-error";
    const events = flat ? flatErrorEvents(error) : errorEvents(state.engine, ask.api, error);
    if (events.length === 0) drop();
    yield* events;
  }
}

function isDue(fault: Fault, tokens: number, elapsedMs: number): boolean {
  return fault.atMs === undefined ? tokens >= (fault.atEvent ?? 2) : elapsedMs >= fault.atMs;
}

function makeSamples(run: Run, ready: Ready): Sample[] {
  const { state, ask } = run;
  const samples = generate(ask, {
    answerTokens: state.answerTokens,
    maxModelLen: state.maxModelLen,
    garbage: ready.garbage,
  });
  const abort = findFault(run, "abort");
  if (abort === undefined) return samples;
  return samples.map((sample) => ({ ...sample, tokens: sample.tokens.slice(0, abort.atEvent ?? 2), finish: "abort" }));
}

function makeShape(run: Run, ready: Ready, samples: readonly Sample[]): Shape {
  const { state, ask, request } = run;
  const abort = findFault(run, "abort");
  return createShape({
    engine: state.engine,
    ask,
    samples,
    id: answerId(run, request.headers.get("x-request-id")),
    created: Math.floor(Date.now() / 1000),
    model: ask.model ?? state.model,
    cached: ready.cached,
    abort: abort === undefined ? undefined : injected(abort),
    inputLogprobs: run.inputLogprobs,
  });
}

function answerId(run: Run, requestId: string | null): string {
  const prefix = { chat: "chatcmpl-", completions: "cmpl-", generate: "", responses: "", messages: "" }[run.ask.api];
  return prefix + (requestId ?? ids(run.request));
}

/** One id per request, however often its shape is made. */
const madeIds = new WeakMap<SimRequest, string>();
function ids(request: SimRequest): string {
  const known = madeIds.get(request);
  if (known !== undefined) return known;
  const made = crypto.randomUUID().replaceAll("-", "");
  madeIds.set(request, made);
  return made;
}

export function findFault(run: Pick<Run, "faults">, kind: Fault["kind"]): Fault | undefined {
  return run.faults.find((fault) => fault.kind === kind);
}

/** The error a fault stands for. */
export function injected(fault: Fault): EngineError {
  return { status: fault.argument ?? 500, message: `Simulated fault: ${fault.text}` };
}
