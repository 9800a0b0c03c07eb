import type { SimulatedRole } from "./options.ts";

const kinds = [
  "status",
  "reset",
  "hang",
  "fin",
  "cut",
  "silence",
  "delay",
  "abort",
  "error-frame",
  "flat-error",
  "error-json",
  "no-finish",
  "no-done",
  "null-handoff",
  "empty-handoff",
  "bad-handoff",
  "health",
] as const;
export type FaultKind = (typeof kinds)[number];

/** One fault, as written by a person: `kind[:argument][@position][*times]`. */
export interface Fault {
  kind: FaultKind;
  /** `status:503`, `abort:500`, `delay:250`, `health:500`. */
  argument: number | undefined;
  /** `@120ms`: milliseconds after the request arrived. */
  atMs: number | undefined;
  /** `@3`: after that many events of the answer. */
  atEvent: number | undefined;
  /** `*2`: only for the first two requests that carry this very text. */
  times: number | undefined;
  text: string;
}

/** What `--help` and error messages say about the notation. */
export const faultHelp = `Faults: KIND[:ARG][@120ms | @3][*2]   (after 120 ms, after 3 events, only the first 2 requests)
  status:503      that status, with the engine's own error body; /health stays 200
  reset           RST: before any answer, or where @ says
  hang            the request is read and nothing ever comes
  fin             FIN without the terminator, after 2 events
  cut             FIN in the middle of an event (or of a buffered body)
  silence         the answer stops, the connection stays open
  delay:250       250 ms before anything else
  abort:500       finish reason "abort" inside a 200
  error-frame     an error event inside a 200, then [DONE]
  flat-error      the old flat {"object":"error"} event, then [DONE]
  error-json      a JSON error body with status 200
  no-finish       [DONE] without a finish reason
  no-done         a clean end without [DONE]
  null-handoff    the hand-off is null; empty-handoff: {}; bad-handoff: without blocks
  health:500      /health answers that status, generation is fine
Per request by header: x-sim-fault (every leg), x-sim-prefill, x-sim-decode, x-sim-aggregated; several with commas.`;

const notation = /^([a-z-]+)(?::(\d+))?(?:@(\d+)(ms)?)?(?:\*(\d+))?$/;

/** Reads one fault. Throws Error that says what was wanted. */
export function parseFault(text: string): Fault {
  const match = notation.exec(text.trim());
  const kind = kinds.find((known) => known === match?.[1]);
  if (match === null || kind === undefined) {
    throw new Error(`Expected a fault like "status:503" or "reset@120ms", got "${text}"; kinds: ${kinds.join(", ")}`);
  }
  const argument = match[2] === undefined ? undefined : Number(match[2]);
  if ((kind === "status" || kind === "health" || kind === "abort") && argument !== undefined) {
    if (argument < 400 || argument > 599) throw new Error(`Expected a status from 400 to 599 in fault "${text}"`);
  }
  const position = match[3] === undefined ? undefined : Number(match[3]);
  return {
    kind,
    argument,
    atMs: match[4] === undefined ? undefined : position,
    atEvent: match[4] === undefined ? position : undefined,
    times: match[5] === undefined ? undefined : Number(match[5]),
    text: text.trim(),
  };
}

/** The faults that a request's headers ask of this role. Throws Error on a notation it cannot read. */
export function faultsOfHeaders(headers: Headers, role: SimulatedRole): Fault[] {
  const faults: Fault[] = [];
  for (const name of ["x-sim-fault", `x-sim-${role}`]) {
    for (const text of (headers.get(name) ?? "").split(",")) {
      if (text.trim() !== "" && text.trim() !== "none") faults.push(parseFault(text));
    }
  }
  return faults;
}

/** Counts `*N` faults: each text strikes that many times in an engine's life. */
export class FaultCounter {
  readonly #struck = new Map<string, number>();

  /** Whether the fault strikes this time. */
  strike(fault: Fault): boolean {
    if (fault.times === undefined) return true;
    const before = this.#struck.get(fault.text) ?? 0;
    if (before >= fault.times) return false;
    this.#struck.set(fault.text, before + 1);
    return true;
  }
}
