import type { RequestRow } from "../update.ts";

/** A piece of a lane, in milliseconds after the request's start. */
export interface Piece {
  kind: "wait" | "work" | "tail";
  from: number;
  to: number;
}

/** A request as two lanes. */
export interface Bars {
  prefill: Piece[];
  decode: Piece[];
  /** Where prefill's work reached decode: with decode's dispatch, or where both legs are sent at once when prefill is done. */
  handoff: number | undefined;
  /** Where a leg broke, and which. */
  broken: { lane: "prefill" | "decode" | "both"; at: number; late: boolean } | undefined;
  /** End of everything that is shown. */
  end: number;
}

/** `elapsed`: milliseconds since the request's start, for what is not over yet. */
export function barsOf(row: RequestRow, elapsed: number): Bars {
  const finished = row.finished ?? elapsed;
  const prefill: Piece[] = [];
  const decode: Piece[] = [];
  if (row.prefillSent !== undefined) {
    const tailEnd = row.tailEnded ?? (row.tailOpen ? elapsed : undefined);
    const end = row.prefillDone ?? tailEnd ?? finished;
    prefill.push({ kind: "work", from: row.prefillSent, to: Math.min(end, finished) });
    if (end > finished) prefill.push({ kind: "tail", from: finished, to: end });
  }
  if (row.decodeSent !== undefined) {
    const first = row.firstToken ?? finished;
    decode.push({ kind: "wait", from: row.decodeSent, to: first });
    if (row.firstToken !== undefined) decode.push({ kind: "work", from: first, to: finished });
  }
  return {
    prefill,
    decode,
    handoff: handoffAt(row),
    broken: brokenAt(row, finished),
    end: Math.max(finished, ...prefill.map((piece) => piece.to)),
  };
}

function handoffAt(row: RequestRow): number | undefined {
  const { prefillSent, prefillDone, decodeSent, firstToken, failed } = row;
  if (prefillSent === undefined || decodeSent === undefined) return undefined;
  // A tail that failed has an end too, but what decode had it had before that.
  if (failed === "late") return firstToken;
  if (failed === "prefill" || prefillDone === undefined) return undefined;
  // Both legs at once: prefill's leg was only taken down with decode's.
  if (failed !== undefined && firstToken === undefined && prefillDone > decodeSent) return undefined;
  return Math.max(decodeSent, Math.min(prefillDone, firstToken ?? prefillDone));
}

function brokenAt(row: RequestRow, finished: number): Bars["broken"] {
  switch (row.failed) {
    case undefined:
      return undefined;
    case "late":
      return { lane: "prefill", at: row.prefillDone ?? row.tailEnded ?? finished, late: true };
    case "prefill":
      return { lane: "prefill", at: finished, late: false };
    case "decode":
      return { lane: "decode", at: finished, late: false };
    default:
      return { lane: "both", at: finished, late: false };
  }
}

/**
 * The common scale of rows: most fit, and one that hung for minutes does not press all others flat (it runs out of the picture).
 * A round number of milliseconds.
 */
export function scaleOf(ends: readonly number[]): number {
  if (ends.length === 0) return 1_000;
  const sorted = [...ends].sort((a, b) => a - b);
  const most = sorted[Math.ceil(sorted.length * 0.9) - 1]!;
  const longest = sorted.at(-1)!;
  return roundUp(Math.min(longest, most * 1.5));
}

function roundUp(ms: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, ms)));
  for (const step of [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) if (ms <= step * power * 1.0001) return step * power;
  return ms;
}
