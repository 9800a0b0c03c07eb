import fc from "fast-check";
import type { Api } from "../../src/sse/api.ts";
import { contentLength } from "./oracle.ts";
import { type Mode, prefillAnswer } from "./prefill-answers.ts";
import {
  abortBody,
  abortEvent,
  answerBody,
  answerEvents,
  apis,
  errorEvent,
  errorInside,
  type ScriptedEvent,
} from "./streams.ts";
import type { LegScript } from "./virtual-engine.ts";

/** What one leg is meant to say before anything is cut: its own content, and its own kind of failure. */
export interface LegPlan {
  start: LegScript["start"];
  headMs: number;
  status: number;
  /** The content goes wrong by itself (error object, abort), for streams after so many events. */
  inside: "well" | "error" | "abort";
  insideAt: number;
  /** Bytes that get out; more than there are means all. */
  upTo: number;
  ending: LegScript["ending"];
  endMs: number;
  /** Where the bytes are cut into pieces, and how long each lets wait. */
  cuts: readonly number[];
  delays: readonly number[];
  /** The head tells the body's length. */
  length: boolean;
}

export interface Plan {
  mode: Mode;
  api: Api;
  stream: boolean;
  lineEnd: "\n" | "\r\n" | "\r";
  prefill: readonly [LegPlan, LegPlan];
  decode: readonly [LegPlan, LegPlan];
  retries: boolean;
  cancel: "anytime" | "deferred";
  lateFailure: "any" | "definitive";
  settleMs: number;
  keepAliveMs: number;
  /** When the client leaves, and by which sign; undefined: it stays. */
  leavesAt: number | undefined;
  leaves: "signal" | "cancel" | "both";
  /** How long the client lets wait between its reads. */
  pauses: readonly number[];
}

const splitApis: Readonly<Record<Mode, readonly Api[]>> = {
  sglang: apis,
  vllm: ["chat", "completions", "responses", "messages"],
  trtllm: ["chat", "completions"],
  aggregated: apis,
};

const whole = 1_000_000;
const shortMs = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }));

const legPlan: fc.Arbitrary<LegPlan> = fc.record({
  start: fc.oneof(
    { weight: 12, arbitrary: fc.constant<LegScript["start"]>("answers") },
    { weight: 2, arbitrary: fc.constantFrom<LegScript["start"]>("refused", "reset", "silence") },
  ),
  headMs: shortMs,
  status: fc.oneof(
    { weight: 12, arbitrary: fc.constant(200) },
    { weight: 1, arbitrary: fc.constantFrom(400, 429, 500, 503) },
  ),
  inside: fc.oneof(
    { weight: 8, arbitrary: fc.constant<LegPlan["inside"]>("well") },
    { weight: 1, arbitrary: fc.constantFrom<LegPlan["inside"]>("error", "abort") },
  ),
  insideAt: fc.nat(8),
  upTo: fc.oneof({ weight: 2, arbitrary: fc.constant(whole) }, { weight: 1, arbitrary: fc.nat(1_200) }),
  ending: fc.oneof(
    { weight: 5, arbitrary: fc.constant<LegScript["ending"]>("clean") },
    { weight: 2, arbitrary: fc.constantFrom<LegScript["ending"]>("cut", "silence") },
  ),
  endMs: shortMs,
  cuts: fc.oneof(fc.array(fc.nat(1_200), { maxLength: 12 }), fc.constant([]), fc.constant(everyByte())),
  delays: fc.array(shortMs, { minLength: 1, maxLength: 6 }),
  length: fc.boolean(),
});

export const plans: fc.Arbitrary<Plan> = fc
  .constantFrom<Mode>("sglang", "sglang", "vllm", "trtllm", "aggregated")
  .chain((mode) =>
    fc.record({
      mode: fc.constant(mode),
      api: fc.constantFrom(...splitApis[mode]),
      stream: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
      lineEnd: fc.constantFrom<Plan["lineEnd"]>("\n", "\n", "\r\n", "\r"),
      prefill: fc.tuple(legPlan, legPlan),
      decode: fc.tuple(legPlan, legPlan),
      retries: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
      cancel: fc.constantFrom<Plan["cancel"]>("anytime", "deferred"),
      lateFailure: fc.constantFrom<Plan["lateFailure"]>("any", "any", "definitive"),
      settleMs: fc.constantFrom(0, 5, 60, 500),
      keepAliveMs: fc.constantFrom(0, 0, 0, 10),
      leavesAt: fc.oneof(
        { weight: 2, arbitrary: fc.constant(undefined) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 200 }) },
      ),
      leaves: fc.constantFrom<Plan["leaves"]>("signal", "cancel", "both"),
      pauses: fc.oneof(fc.constant([0]), fc.array(shortMs, { minLength: 1, maxLength: 4 })),
    }),
  );

function everyByte(): number[] {
  return Array.from({ length: 400 }, (_, at) => at);
}

/** Decode's script of a stream, with what of it is whole when it ends. */
export interface StreamScript {
  script: LegScript;
  events: ScriptedEvent[];
  delivered: number;
  /** The engine's own error event got out, whole. */
  failedInside: boolean;
  finished: boolean;
  /** Milliseconds from the request to the last byte of the finish event. */
  finishMs: number;
}

export function streamScript(plan: LegPlan, api: Api, lineEnd: string): StreamScript {
  const good = answerEvents(api).map(({ role, bytes }) => ({ role, bytes: relined(bytes, lineEnd) }));
  // Only before the finish: what comes after it is another matter, and tested as one.
  const last = good.findIndex(({ role }) => role === "finish");
  const at = Math.min(plan.insideAt, last);
  const events = plan.inside === "well" ? good : good.slice(0, at);
  const inside =
    plan.inside === "well" ? undefined : relined(plan.inside === "error" ? errorEvent(api) : abortEvent(api), lineEnd);
  const bytes = Buffer.concat([...events.map((event) => event.bytes), ...(inside === undefined ? [] : [inside])]);
  const length = Math.min(plan.upTo, bytes.length);
  const script = scriptOf(plan, bytes.subarray(0, length), "text/event-stream", false);
  // What ends properly but for a blank line is whole; of a broken end only a lone CR is as good as its CRLF.
  const reach = (event: Buffer, start: number) =>
    plan.ending === "clean" ? start + contentLength(event) : start + event.length - (lineEnd === "\r\n" ? 1 : 0);
  let end = 0;
  let delivered = 0;
  let finishEnd = Number.POSITIVE_INFINITY;
  for (const event of events) {
    if (reach(event.bytes, end) > length) break;
    end += event.bytes.length;
    delivered++;
    if (event.role === "finish") finishEnd = Math.min(end, length);
  }
  let sent = 0;
  let ms = script.headMs;
  let finishMs = Number.POSITIVE_INFINITY;
  for (const piece of script.pieces) {
    sent += piece.bytes.length;
    ms += piece.afterMs;
    if (sent >= finishEnd) {
      finishMs = ms;
      break;
    }
  }
  return {
    script,
    events,
    delivered,
    failedInside: inside !== undefined && length >= reach(inside, bytes.length - inside.length),
    finished: finishEnd !== Number.POSITIVE_INFINITY,
    finishMs,
  };
}

/** Decode's script of a buffered answer, and whether it is one. */
export function bodyScript(plan: LegPlan, api: Api): { script: LegScript; good: boolean } {
  const body = Buffer.from(
    plan.inside === "well" ? answerBody(api) : plan.inside === "error" ? errorInside : abortBody(api),
  );
  const length = Math.min(plan.upTo, body.length);
  const script = scriptOf(plan, body.subarray(0, length), "application/json", plan.length && length === body.length);
  return { script, good: plan.inside === "well" && length === body.length };
}

/** Prefill's script; `doneMs` is when its fate is sealed, from the request on. */
export function prefillScript(
  plan: LegPlan,
  mode: Mode,
  api: Api,
  serial: number,
): { script: LegScript; good: boolean; doneMs: number } {
  const answer = prefillAnswer(mode, api).replace('"rr-1"', `"rr-${serial}"`);
  const body = Buffer.from(plan.inside === "well" ? answer : plan.inside === "error" ? errorInside : abortBody(api));
  const length = Math.min(plan.upTo, body.length);
  const script = scriptOf(plan, body.subarray(0, length), "application/json", plan.length && length === body.length);
  const ends = plan.start === "answers" && plan.ending === "clean";
  // Nothing at all, with a good status, claims nothing where decode already runs.
  const nothing = length === 0 && mode === "sglang";
  const good = ends && plan.status === 200 && (nothing || (plan.inside === "well" && length === body.length));
  const spent = script.pieces.reduce((sum, { afterMs }) => sum + afterMs, script.headMs) + script.endMs;
  return { script, good, doneMs: plan.start === "answers" ? spent : plan.headMs };
}

function scriptOf(plan: LegPlan, bytes: Buffer, type: string, length: boolean): LegScript {
  const { start, headMs, status, cuts, delays, ending, endMs } = plan;
  const headers: Record<string, string> = { "content-type": type };
  if (status !== 200) {
    const body = Buffer.from(JSON.stringify({ error: { message: `said no with ${status}` } }));
    headers["content-type"] = "application/json";
    return { start, headMs, status, headers, pieces: [{ afterMs: 0, bytes: body }], ending: "clean", endMs };
  }
  if (length) headers["content-length"] = String(bytes.length);
  else headers["transfer-encoding"] = "chunked";
  const places = [...new Set([...cuts.filter((cut) => cut > 0 && cut < bytes.length), bytes.length])].sort(
    (a, b) => a - b,
  );
  // A byte at a time must not take seconds of the clock.
  const every = Math.max(1, Math.ceil(places.length / 12));
  let from = 0;
  const pieces = places.map((to, at) => {
    const piece = { afterMs: at % every === 0 ? delays[at % delays.length]! : 0, bytes: bytes.subarray(from, to) };
    from = to;
    return piece;
  });
  return { start, headMs, status, headers, pieces: pieces.filter((piece) => piece.bytes.length > 0), ending, endMs };
}

function relined(bytes: Buffer, lineEnd: string): Buffer {
  return lineEnd === "\n" ? bytes : Buffer.from(bytes.toString("utf8").replaceAll("\n", lineEnd));
}
