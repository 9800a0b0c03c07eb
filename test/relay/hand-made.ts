import { ClientGone, Failure } from "../../src/errors/failure.ts";
import { PrefillError } from "../../src/prefill/errors.ts";
import { PrefillTask } from "../../src/prefill/task.ts";
import { DecodeRelay, type RelayObserver, type RelayOptions } from "../../src/relay/decode-relay.ts";
import { streamApis } from "../../src/sse/api.ts";
import { type HandRequest, handLeg } from "../legs/hand-made.ts";
import { type ManualClock, settled } from "../manual-clock.ts";

const decoder = new TextDecoder();

export function event(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

export function chunk(delta: object, finish: string | null = null, index = 0): string {
  return event({ id: "c1", object: "chat.completion.chunk", choices: [{ index, delta, finish_reason: finish }] });
}

export const ROLE = chunk({ role: "assistant", content: "" });
export const DONE = "data: [DONE]\n\n";
export const say = (content: string): string => chunk({ content });
export const finish = (reason = "stop"): string => chunk({}, reason);
export const USAGE = event({ id: "c1", choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } });

export interface Relayed {
  relay: DecodeRelay;
  engine: HandRequest;
  clock: ManualClock;
  task: PrefillTask;
  /** What the relay told its observer, one word or line each. */
  told: string[];
  commit: { state: "pending" | "committed" | Failure | ClientGone };
  /** Everything the client gets until the end. */
  drain(): Promise<string>;
  read(): Promise<string | undefined>;
}

export interface Settings {
  api?: keyof typeof streamApis;
  /** No prefill beside decode: sequential modes, aggregated workers. */
  alone?: boolean;
  options?: Partial<RelayOptions>;
  limits?: Partial<RelayOptions["limits"]>;
}

/** A relay over a leg whose engine is played by hand; started, with nothing sent yet. */
export async function relayed({
  api = "chat",
  alone = false,
  options = {},
  limits = {},
}: Settings = {}): Promise<Relayed> {
  const { leg, clock, engine } = handLeg();
  const opening = leg.open();
  engine().head();
  await opening;
  const told: string[] = [];
  const task = new PrefillTask({ background: { run() {} }, clock, limits: { settleMs: 500 } });
  const relay = new DecodeRelay({
    leg,
    api: streamApis[api],
    choices: 1,
    task: alone ? undefined : task,
    tail: undefined,
    editor: undefined,
    clock,
    limits: { eventBytes: 65_536, settleMs: 500, idleMs: 1_000, ...limits },
    lateFailure: "any",
    mask: (text) => text.replaceAll("secret-key", "***"),
    observer: tell(told),
    ...options,
  });
  const commit: Relayed["commit"] = { state: "pending" };
  relay.start().then(
    () => {
      commit.state = "committed";
    },
    (error: Failure | ClientGone) => {
      commit.state = error;
    },
  );
  await settled();
  return { relay, engine: engine(), clock, task, told, commit, drain, read };

  async function read(): Promise<string | undefined> {
    const bytes = await relay.next();
    return bytes === undefined ? undefined : decoder.decode(bytes);
  }

  async function drain(): Promise<string> {
    let text = "";
    for (let part = await read(); part !== undefined; part = await read()) text += part;
    return text;
  }
}

function tell(told: string[]): RelayObserver {
  return {
    explain: explainPrefill,
    prefillFails: () => false,
    ended: (failure) =>
      told.push(failure === undefined ? "ended" : failure instanceof ClientGone ? "gone" : failure.code),
    firstEvent: () => {
      if (!told.includes("first event")) told.push("first event");
    },
    speaks: () => {},
    settleWaited: (ms, done) => told.push(`waited ${ms} ${done}`),
    mended: (what) => told.push(`mended ${what}`),
    lateFailure: (kind, when, passed) => told.push(`late ${kind} ${when} ${passed ? "passed" : "shown"}`),
    usage: () => told.push("usage"),
  };
}

function explainPrefill(error: unknown): Failure {
  return (error as PrefillError).cause as Failure;
}

/** Prefill's tail fails: lost on its way, or with an answer that is an error. */
export function failPrefill(
  task: PrefillTask,
  kind: "reset" | "cut" | "status" | "content",
  message = "KV transfer failed",
): void {
  const lost = kind === "reset" || kind === "cut";
  const cause = new Failure(lost ? "prefill_unreachable" : "prefill_failed", {
    status: kind === "status" ? 503 : 502,
    stage: "prefill",
    kind,
    message,
  });
  task.settle({ ok: false, error: new PrefillError("error_in_stream", message, cause) });
}

export function settlePrefill(task: PrefillTask, tail = {}): void {
  task.settle({ ok: true, tail });
}
