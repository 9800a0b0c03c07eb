import { newSpanId, newTraceId } from "./ids.ts";
import type { RequestRecord } from "./record.ts";

export interface TraceParent {
  traceId: string;
  spanId: string;
  sampled: boolean;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/**
 * W3C Trace Context 3.2: undefined when invalid. Version 00 must end after its flags; of higher versions the known part is read;
 * version ff is invalid. Several headers (joined by a comma) are invalid.
 */
export function parseTraceparent(header: string | null): TraceParent | undefined {
  const match = header === null ? null : TRACEPARENT.exec(header.trim());
  if (match === null) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = match;
  if (version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** Always version 00, and of the flags only the sampled bit, as section 3.2.2.5 asks of those that know no others. */
export function formatTraceparent(traceId: string, spanId: string, sampled: boolean): string {
  return `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
}

const STATE_MEMBER =
  /^(?:[a-z][_0-9a-z\-*/]{0,255}|[a-z0-9][_0-9a-z\-*/]{0,240}@[a-z][_0-9a-z\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** W3C Trace Context 3.3: at most 32 members, well-formed, no key twice; empty members are allowed. */
export function isValidTracestate(header: string): boolean {
  const keys = new Set<string>();
  for (const part of header.split(",")) {
    const member = withoutBlanks(part);
    if (member === "") continue;
    if (!STATE_MEMBER.test(member)) return false;
    const key = member.slice(0, member.indexOf("="));
    if (keys.has(key)) return false;
    keys.add(key);
  }
  return keys.size > 0 && keys.size <= 32;
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const BAGGAGE_VALUE = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/;
const BAGGAGE_MAX = 8192;

/** W3C Baggage 3.3: well-formed members, at most 8192 bytes in all. */
export function isValidBaggage(header: string): boolean {
  return header.length <= BAGGAGE_MAX && header.split(",").every(isBaggageMember);
}

/** `key=value`, then properties with or without a value. */
function isBaggageMember(member: string): boolean {
  return member.split(";").every((part, index) => {
    const at = part.indexOf("=");
    if (at < 0) return index > 0 && TOKEN.test(withoutBlanks(part));
    return TOKEN.test(withoutBlanks(part.slice(0, at))) && BAGGAGE_VALUE.test(withoutBlanks(part.slice(at + 1)));
  });
}

/** By hand: a pattern for blanks at the end begins anew at each of them, and a client may send thousands. */
function withoutBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isBlank(character: number): boolean {
  return character === 0x20 || character === 0x09;
}

/**
 * Fills the record's trace from the client's headers. A valid `traceparent` is continued, and its sampled bit decides whether this
 * request's spans are exported; `tracestate` belongs to it and is kept only with it. Without a valid one a new trace begins, always
 * sampled: a 0 would also switch off tracing in engines that would have begun one by themselves. `baggage` stands on its own.
 * What is kept goes on byte for byte; what is not valid goes nowhere, and never fails the request.
 */
export function beginTrace(record: RequestRecord, headers: Headers): void {
  const parent = parseTraceparent(headers.get("traceparent"));
  record.spanId = newSpanId();
  if (parent === undefined) {
    record.traceId = newTraceId();
    record.sampled = true;
  } else {
    record.traceId = parent.traceId;
    record.parentSpanId = parent.spanId;
    record.sampled = parent.sampled;
    const state = headers.get("tracestate");
    if (state !== null && isValidTracestate(state)) record.traceState = state;
  }
  const baggage = headers.get("baggage");
  if (baggage !== null && isValidBaggage(baggage)) record.baggage = baggage;
}

/**
 * `traceparent` of a leg. `legSpanId` is the span of that leg (kept by the caller in `prefillSpanId` or `decodeSpanId`); "" when this
 * router exports no span for it, and then the leg hangs on the nearest span somebody else has: the client's.
 */
export function legTraceparent(record: RequestRecord, legSpanId: string): string {
  return formatTraceparent(record.traceId, legSpanId || record.parentSpanId || record.spanId, record.sampled);
}
