import type { EngineFault } from "../errors/failure.ts";
import { type Api, streamApis } from "../sse/api.ts";
import { parseEvent } from "../sse/parse-event.ts";
import { eventSpans } from "../sse/split.ts";
import { StreamState } from "../sse/stream-state.ts";

const FIELD = /^(?:data|event|id|retry)[:\r\n]/;

/** What an event stream that has come to its end says as a whole. */
export interface StreamVerdict {
  fault: EngineFault | undefined;
  /** It had its end mark; for /v1/responses, which has none, its finish event. */
  ended: boolean;
}

/** Whether a text is an event stream and not JSON. Comments before it must be gone. */
export function looksLikeStream(text: string): boolean {
  return FIELD.test(text);
}

/** Reads a complete event stream where one JSON answer was asked for; the first failure in it decides. */
export function judgeStream(api: Api, text: string): StreamVerdict {
  const bytes = new TextEncoder().encode(text);
  const stream = streamApis[api];
  const state = new StreamState();
  let ended = false;
  for (const { start, end } of eventSpans(bytes)) {
    const meaning = stream.read(parseEvent(bytes.subarray(start, end)), state);
    if (meaning.failure !== undefined) return { fault: meaning.failure.fault, ended: false };
    ended ||= meaning.end;
  }
  return { fault: undefined, ended: ended || (stream.endMark === "" && state.finished) };
}
