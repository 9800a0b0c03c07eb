import type { EngineOutput, PrefillOutput, RawJson } from "../../src/prefill/output.ts";
import type { Background, Clock, Guard } from "../../src/prefill/ports.ts";

/** A clock that only moves when told. */
export class ManualClock implements Clock {
  time = 0;
  readonly timers = new Set<{ at: number; fn: () => void }>();

  now(): number {
    return this.time;
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.time + ms, fn };
    this.timers.add(timer);
    return () => {
      this.timers.delete(timer);
    };
  }

  advance(ms: number): void {
    this.time += ms;
    for (const timer of [...this.timers]) {
      if (timer.at > this.time) continue;
      this.timers.delete(timer);
      timer.fn();
    }
  }
}

/** Keeps what it was given, so that a test can see when the drain has ended. */
export class RecordingBackground implements Background {
  readonly tasks: Promise<unknown>[] = [];
  readonly faults: unknown[] = [];

  run(task: Promise<unknown>): void {
    this.tasks.push(task);
  }

  fault(error: unknown): void {
    this.faults.push(error);
  }
}

export class CountingGuard implements Guard {
  released = 0;

  release(): void {
    this.released += 1;
  }
}

/** A stream made by hand: items are pushed one by one, and it knows whether it was cancelled. */
export class HandMade<T> {
  readonly stream: ReadableStream<T>;
  cancelled: unknown[] = [];
  #controller!: ReadableStreamDefaultController<T>;

  constructor(...items: T[]) {
    this.stream = new ReadableStream<T>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: (reason) => {
        this.cancelled.push(reason);
      },
    });
    for (const item of items) this.push(item);
  }

  /** Like an engine that writes to a closed socket: nothing happens after a cancel. */
  push(item: T): void {
    if (this.cancelled.length === 0) this.#controller.enqueue(item);
  }

  end(): this {
    if (this.cancelled.length === 0) this.#controller.close();
    return this;
  }

  fail(error: unknown): this {
    if (this.cancelled.length === 0) this.#controller.error(error);
    return this;
  }
}

export function raw(value: unknown): RawJson {
  return { value, text: JSON.stringify(value) };
}

export function data(output: EngineOutput): PrefillOutput {
  return { data: output };
}

export const BOOTSTRAP = raw({ bootstrap_host: "10.0.0.7", bootstrap_port: 8998, bootstrap_room: 7 });

export function bootstrap(more: EngineOutput = {}): PrefillOutput {
  return { data: { disaggregatedParams: BOOTSTRAP, ...more } };
}

export function endedWith(...outputs: PrefillOutput[]): ReadableStream<PrefillOutput> {
  return new HandMade<PrefillOutput>(...outputs).end().stream;
}

export function surroundings(settleMs = 500) {
  return { background: new RecordingBackground(), clock: new ManualClock(), limits: { settleMs } };
}

/** Lets every microtask run that is due, and those that they cause. */
export function quiet(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** The error a promise rejects with; throws when it does not. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("Expected a rejection");
}

export async function readAll<T>(stream: ReadableStream<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}
