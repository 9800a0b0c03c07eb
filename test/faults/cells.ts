import type { Api } from "../../src/sse/api.ts";
import type { Mode } from "./prefill-answers.ts";
import { apis } from "./streams.ts";

/**
 * Where an answer is hit:
 * - `connect`, `headers`: before the connection, before the status line
 * - `body`: the head is out, nothing else
 * - `lead`: events that say nothing yet are out
 * - `mid`: in the middle of an event (buffered: of the body); two whole answers came before it
 * - `between`: between two events
 * - `in-finish`: in the middle of the finish event
 * - `finished`: the finish event is out, the end mark is not
 * - `end`: everything is out but the terminator of the body
 */
export type Point = "connect" | "headers" | "body" | "lead" | "mid" | "between" | "in-finish" | "finished" | "end";

/**
 * `clean`: a proper terminator, though the answer is not there. `garbage`: bytes that mean nothing at that point. `bad-chunk`: a chunk size
 * that is none. `bare-cut`: a body without length and chunks, cut: to HTTP that is a proper end. Numbers are statuses with an error body.
 */
export type Kind =
  | "refuse"
  | "rst"
  | "fin"
  | "silence"
  | "clean"
  | "garbage"
  | "bad-chunk"
  | "bare-cut"
  | "error"
  | "abort"
  | 400
  | 429
  | 500
  | 503;

export interface Fault {
  point: Point;
  kind: Kind;
}

/**
 * How far decode is when prefill is hit, where both run at once: `early`: it has not answered. `streaming`: answers are out. `settling`: its
 * finish (buffered: its answer) is out and is held. `over`: the client has the whole answer.
 */
export type Phase = "early" | "streaming" | "settling" | "over";

export interface Cell {
  mode: Mode;
  api: Api;
  stream: boolean;
  leg: "prefill" | "decode";
  fault: Fault;
  phase: Phase;
  /** sglang, faults of decode: prefill's answer is still open, instead of given. */
  prefillOpen: boolean;
  definitive: boolean;
}

const splitApis: Readonly<Record<Mode, readonly Api[]>> = {
  sglang: apis,
  vllm: ["chat", "completions", "responses", "messages"],
  trtllm: ["chat", "completions"],
  aggregated: apis,
};
const modes = Object.keys(splitApis) as Mode[];

const beforeHeaders: readonly Kind[] = ["rst", "fin", "silence", "garbage", 400, 429, 500, 503];

const streamFaults: Readonly<Record<Point, readonly Kind[]>> = {
  connect: ["refuse"],
  headers: beforeHeaders,
  body: ["rst", "fin", "silence", "clean", "garbage", "error", "abort"],
  lead: ["rst", "fin", "silence", "clean", "error", "abort"],
  mid: ["rst", "fin", "silence", "clean", "bad-chunk"],
  between: ["rst", "fin", "silence", "clean", "error", "abort", "garbage", "bad-chunk"],
  "in-finish": ["rst", "fin", "silence", "clean"],
  finished: ["rst", "fin", "silence", "clean", "error"],
  end: ["rst", "fin", "silence", "garbage"],
};

const bufferedFaults: Partial<Record<Point, readonly Kind[]>> = {
  connect: ["refuse"],
  headers: beforeHeaders,
  body: ["rst", "fin", "silence", "clean", "garbage", "error", "abort"],
  mid: ["rst", "fin", "silence", "clean", "bad-chunk", "bare-cut"],
  end: ["rst", "fin", "silence"],
};

const prefillFaults: Partial<Record<Point, readonly Kind[]>> = {
  connect: ["refuse"],
  headers: beforeHeaders,
  body: ["rst", "fin", "silence", "clean", "garbage", "error", "abort"],
  mid: ["rst", "fin", "silence", "clean", "bad-chunk"],
  end: ["rst", "fin"],
};

/** The whole table. */
export function allCells(): Cell[] {
  const cells: Cell[] = [];
  for (const mode of modes) {
    for (const api of splitApis[mode]) {
      for (const stream of [true, false]) {
        const base = { mode, api, stream, prefillOpen: false, definitive: false } as const;
        for (const fault of faultsOf(stream ? streamFaults : bufferedFaults)) {
          cells.push({ ...base, leg: "decode", fault, phase: "early" });
          const both = mode === "sglang" && (api === "chat" || api === "messages");
          if (both) cells.push({ ...base, leg: "decode", fault, phase: "early", prefillOpen: true });
        }
        if (mode === "aggregated") continue;
        for (const fault of faultsOf(prefillFaults)) {
          for (const phase of phasesOf(mode, stream, fault)) {
            cells.push({ ...base, leg: "prefill", fault, phase });
            const late = phase === "streaming" || phase === "settling";
            if (late && api === "chat") cells.push({ ...base, leg: "prefill", fault, phase, definitive: true });
          }
        }
      }
    }
  }
  return cells;
}

function faultsOf(table: Partial<Record<Point, readonly Kind[]>>): Fault[] {
  return (Object.entries(table) as [Point, readonly Kind[]][]).flatMap(([point, kinds]) =>
    kinds.map((kind) => ({ point, kind })),
  );
}

function phasesOf(mode: Mode, stream: boolean, { point }: Fault): Phase[] {
  // Sequential: decode is not there before prefill has answered. A refused connection is refused before anything else happens.
  if (mode !== "sglang" || point === "connect") return ["early"];
  return stream ? ["early", "streaming", "settling", "over"] : ["early", "settling", "over"];
}

export function nameOf(cell: Cell): string {
  const { mode, api, stream, leg, fault, phase, prefillOpen, definitive } = cell;
  const where = leg === "prefill" && mode === "sglang" ? `, decode ${phase}` : "";
  const open = prefillOpen ? ", prefill open" : "";
  const late = definitive ? ", lateFailure definitive" : "";
  return `${mode} ${api} ${stream ? "stream" : "buffered"}: ${leg} ${fault.kind} at ${fault.point}${where}${open}${late}`;
}
