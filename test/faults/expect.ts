import type { Cell, Kind } from "./cells.ts";
import type { Expectation } from "./oracle.ts";
import { deliveredEvents } from "./play.ts";
import { answerBody, errorEvent } from "./streams.ts";

export interface Verdicts {
  expectation: Expectation;
  /** Failures that each worker's breaker has to have counted; `either` where two limits end at the same time. */
  blame: Blame;
  /** The limit that ends the request, when one does. */
  limit: "prefillMs" | "firstTokenMs" | "idleMs" | "totalMs" | undefined;
  /** Requests that decode may see. */
  decodeRequests: readonly number[];
}

interface Blame {
  prefill: number | "either";
  decode: number | "either";
}

/** What has to become of one cell, by the contract: section 4 for codes and statuses, 5 for the two legs. */
export function expected(cell: Cell): Verdicts {
  return cell.leg === "decode" ? decodeHit(cell) : prefillHit(cell);
}

function base(cell: Cell): Expectation {
  const { api, stream, leg, fault } = cell;
  const { events, delivered } = deliveredEvents(api, leg === "decode" ? fault : undefined);
  return {
    api,
    stream,
    mayEndWell: false,
    mayFail: true,
    as: "status",
    events,
    delivered,
    body: answerBody(api),
  };
}

function good(cell: Cell, blame: Blame = { prefill: 0, decode: 0 }, decodeRequests: readonly number[] = [1]): Verdicts {
  return {
    expectation: { ...base(cell), mayEndWell: true, mayFail: false },
    blame,
    limit: undefined,
    decodeRequests,
  };
}

function decodeHit(cell: Cell): Verdicts {
  const { mode, api, stream, fault, prefillOpen } = cell;
  const { point, kind } = fault;
  const passedOn = stream && (point === "finished" || point === "end" || (point === "between" && kind === "garbage"));
  if (passedOn) return passed(cell);
  const committed = stream && (point === "mid" || point === "between" || point === "in-finish");
  const expectation: Expectation = { ...base(cell), as: committed ? "frame" : "status", stages: ["decode"] };
  const verdict: Verdicts = {
    expectation,
    blame: { prefill: 0, decode: isNeutral(kind) ? 0 : 1 },
    limit: undefined,
    decodeRequests: point === "connect" ? [0] : [1],
  };
  // A reset may overtake bytes that were sent before it; nothing else does.
  if (committed && kind !== "rst") expectation.atLeast = expectation.delivered;
  if (kind === "silence") {
    expectation.codes = ["decode_timeout"];
    expectation.statuses = [504];
    verdict.limit = committed ? "idleMs" : stream ? "firstTokenMs" : "totalMs";
    if (mode === "sglang" && prefillOpen && !committed) {
      // Decode cannot speak before prefill is done, so it is prefill whose time runs out.
      expectation.codes = ["prefill_timeout"];
      expectation.stages = ["prefill"];
      verdict.limit = "prefillMs";
      // Each of them waits for the other, so which one hangs cannot be told: both are counted.
      verdict.blame = { prefill: 1, decode: 1 };
    }
    return verdict;
  }
  if (typeof kind === "number") {
    expectation.codes = ["decode_failed"];
    expectation.statuses = [kind];
    return verdict;
  }
  if (kind === "error" || kind === "abort") {
    expectation.codes = ["decode_failed"];
    // The fault's own code is its status; SGLang's abort brings one as well. Events of /v1/messages have none.
    if (kind === "error") expectation.statuses = [stream && api === "messages" ? 502 : 529];
    else expectation.statuses = [api === "generate" ? 500 : 502];
    if (kind === "error") expectation.ownFrame = errorEvent(api);
    return verdict;
  }
  expectation.statuses = [502];
  expectation.codes = committed
    ? ["decode_failed"]
    : kind === "refuse" || point === "headers"
      ? ["decode_unreachable"]
      : ["decode_unreachable", "decode_failed"];
  return verdict;
}

/** The finish event is out, or what came means nothing. */
function passed(cell: Cell): Verdicts {
  const { api, fault, prefillOpen } = cell;
  const verdict = good(cell);
  if (!prefillOpen || fault.point !== "finished") return verdict;
  if (fault.kind === "error") {
    // The finish event is still held for prefill's tail: an error that comes with it replaces it, one that comes later is dropped.
    verdict.expectation = { ...verdict.expectation, mayFail: true, as: "frame", ownFrame: errorEvent(api) };
    verdict.blame.decode = "either";
  }
  // The tail's time is up at about the same moment as prefill's own.
  if (fault.kind === "silence") verdict.blame.prefill = "either";
  return verdict;
}

function prefillHit(cell: Cell): Verdicts {
  const { mode, stream, fault, phase, definitive } = cell;
  const { point, kind } = fault;
  const sequential = mode !== "sglang";
  const mine = { prefill: isNeutral(kind) ? 0 : 1, decode: 0 };
  // Its answer was whole: what the connection does then is nobody's business.
  if (point === "end") return good(cell);
  // An answer of nothing came whole and claims nothing.
  if (!sequential && point === "body" && kind === "clean") return good(cell);
  if (phase === "over") return good(cell, mine);
  if (phase !== "early" && kind === "silence") return good(cell);
  const lost = kind === "rst" || kind === "fin" || kind === "bad-chunk" || (kind === "garbage" && point === "headers");
  if (definitive && lost && phase !== "early") return good(cell, mine);
  const expectation: Expectation = {
    ...base(cell),
    as: stream && phase !== "early" ? "frame" : "status",
    stages: ["prefill", "handoff"],
  };
  const verdict: Verdicts = { expectation, blame: mine, limit: undefined, decodeRequests: sequential ? [0] : [0, 1] };
  if (phase === "settling" || phase === "streaming") verdict.decodeRequests = [1];
  if (kind === "silence") {
    expectation.codes = ["prefill_timeout"];
    expectation.statuses = [504];
    verdict.limit = "prefillMs";
    if (!sequential) verdict.blame = { prefill: 1, decode: 1 };
  } else if (typeof kind === "number") {
    expectation.codes = ["prefill_failed"];
    expectation.statuses = [kind];
  } else if (kind === "error") {
    expectation.codes = ["prefill_failed"];
    expectation.statuses = [529];
  } else if (kind === "abort") {
    expectation.codes = ["prefill_failed"];
    expectation.statuses = [500, 502];
  } else if (point !== "headers" && (kind === "garbage" || kind === "clean")) {
    expectation.codes = sequential ? ["invalid_handoff"] : ["prefill_failed"];
    expectation.statuses = [502];
  } else {
    expectation.codes = ["prefill_unreachable"];
    expectation.statuses = [502];
  }
  return verdict;
}

/** The client's own fault, or back-pressure: no breaker counts it. */
function isNeutral(kind: Kind): boolean {
  return kind === 400 || kind === 429 || kind === 503;
}
