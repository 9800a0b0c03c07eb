import type { Clock } from "../../src/runtime/clock.ts";
import { createSimulatedEngine, type SimulatedEngine } from "../../src/simulator/engine.ts";
import type { Fabric } from "../../src/simulator/fabric.ts";
import type { SimulatedEngineOptions } from "../../src/simulator/options.ts";
import { respond } from "../../src/simulator/play-response.ts";

/** Time that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now = 0;
  #timers = new Map<number, { at: number; fn: () => void }>();
  #next = 0;

  now(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): () => void {
    const id = this.#next++;
    this.#timers.set(id, { at: this.#now + ms, fn });
    return () => this.#timers.delete(id);
  }

  /** Moves time forward, timer by timer; lets everything that waits on each of them run first. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const due = [...this.#timers].filter(([, timer]) => timer.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (due === undefined) break;
      this.#timers.delete(due[0]);
      this.#now = Math.max(this.#now, due[1].at);
      due[1].fn();
      await settle();
    }
    this.#now = end;
  }
}

/** Lets promises that are ready run, however long their chain is. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 3; round++) await new Promise<void>((resolve) => setImmediate(resolve));
}

export const instant = { prefillMsPerToken: 0, itlMs: 0, transferMs: 0, dialMs: 0 };

export function makeEngine(options: SimulatedEngineOptions): SimulatedEngine {
  return createSimulatedEngine({ timing: instant, ...options });
}

/** The three engines of one dialect on one fabric. */
export function makeTrio(
  engine: "sglang" | "vllm" | "trtllm",
  fabric: Fabric,
  more: Partial<SimulatedEngineOptions> = {},
) {
  return {
    prefill: makeEngine({ engine, role: "prefill", fabric, ...more }),
    decode: makeEngine({ engine, role: "decode", fabric, ...more }),
    aggregated: makeEngine({ engine, role: "aggregated", fabric, ...more }),
  };
}

export interface PostOptions {
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Posts a body (object, or raw JSON text) to an engine in-process. */
export function post(
  engine: SimulatedEngine,
  path: string,
  body: unknown,
  options: PostOptions = {},
): Promise<Response> {
  const init: RequestInit = {
    method: "POST",
    headers: { "content-type": "application/json", ...options.headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  };
  if (options.signal !== undefined) init.signal = options.signal;
  return respond(engine)(new Request(`http://engine${path}`, init));
}

export function get(engine: SimulatedEngine, path: string): Promise<Response> {
  return respond(engine)(new Request(`http://engine${path}`));
}

/** JSON whose shape the test itself vouches for. */
// biome-ignore lint/suspicious/noExplicitAny: answers are walked by path in assertions
export type Answer = any;

export async function json(response: Response | Promise<Response>): Promise<Answer> {
  return (await response).json();
}

/** The data of each event of a finished stream, `[DONE]` included. */
export function eventsOf(text: string): string[] {
  return text
    .split("\n\n")
    .map((event) => event.split("\n").find((line) => line.startsWith("data: ")))
    .filter((line) => line !== undefined)
    .map((line) => line.slice("data: ".length));
}

/** The text that a chat stream adds up to. */
export function chatText(stream: string): string {
  let text = "";
  for (const data of eventsOf(stream)) {
    if (data === "[DONE]") continue;
    for (const choice of JSON.parse(data).choices ?? []) text += choice.delta?.content ?? choice.text ?? "";
  }
  return text;
}

/** Adds members, given as raw text, to a JSON object's text. */
export function splice(body: string, members: Record<string, string>): string {
  const more = Object.entries(members).map(([key, value]) => `,${JSON.stringify(key)}:${value}`);
  return `${body.slice(0, -1)}${more.join("")}}`;
}

/** The raw text of a member of a JSON text whose value is an object without nested braces in strings. */
export function rawObject(text: string, key: string): string {
  const start = text.indexOf(`"${key}":{`) + key.length + 3;
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === "{") depth += 1;
    if (text[at] === "}") depth -= 1;
    if (depth === 0) return text.slice(start, at + 1);
  }
  throw new Error(`Expected an object in member "${key}"`);
}

export const chat = { model: "demo-model", messages: [{ role: "user", content: "What runs under the bridge?" }] };

export function rooms(room = "9223372036854775806", port = 8998): Record<string, string> {
  return { bootstrap_host: '"127.0.0.1"', bootstrap_port: String(port), bootstrap_room: room };
}

/** What a promise rejects with. Unlike `expect().rejects` it lets a test go on while the promise is pending. */
export async function failureOf(promise: Promise<unknown>): Promise<Answer> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("Expected a rejection");
}
