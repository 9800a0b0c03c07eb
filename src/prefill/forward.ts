import type { Clock, Limits } from "./ports.ts";
import type { PrefillTask } from "./task.ts";

/** How decode's items are to be read; the forwarder knows nothing else about them. */
export interface ForwardRules<T> {
  /** The item with which decode says that all went well. */
  isTerminal(item: T): boolean;
  /** The item with which decode says that it failed. */
  failure(item: T): boolean;
  /** The item that tells the client of `error`. */
  errorItem(error: Error): T;
}

export interface ForwardPorts {
  clock: Clock;
  limits: Limits;
}

export function forwardDecode<T>(
  _task: PrefillTask,
  _openDecode: () => Promise<ReadableStream<T>>,
  _cancel: (reason: unknown) => void,
  _rules: ForwardRules<T>,
  _ports: ForwardPorts,
): Promise<ReadableStream<T>> {
  return Promise.reject(new Error("Forwarding is being built"));
}
