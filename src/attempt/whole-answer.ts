import { Failure, faultWithinAnswer } from "../errors/failure.ts";
import type { AnswerHead } from "../legs/exchange.ts";
import type { Api } from "../sse/api.ts";
import { bufferedFault } from "../sse/marks.ts";
import type { PassedHeaders } from "./answer.ts";
import { isWholeJson } from "./whole-json.ts";

/** A 200 that is an error, or half an answer, is no answer: throws decode's Failure for it. */
export function checkWholeAnswer(head: AnswerHead, text: string, api: Api, headers: PassedHeaders = []): void {
  const fault = bufferedFault(text, api);
  if (fault !== undefined) throw faultWithinAnswer(fault, { headers });
  if (isWholeJson(text)) return;
  throw new Failure("decode_failed", {
    status: 502,
    stage: "decode",
    kind: "content",
    message: head.headers.get("content-type")?.includes("event-stream")
      ? "The decode worker answered a buffered request with an event stream"
      : "The decode worker's answer is not JSON",
  });
}
