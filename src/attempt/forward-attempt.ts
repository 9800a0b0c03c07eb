import { scanAnswer } from "../engines/answer.ts";
import type { EngineName } from "../engines/dialect.ts";
import { statusFailure } from "../engines/failures.ts";
import { Failure } from "../errors/failure.ts";
import { findMember } from "../json/member.ts";
import { Patch } from "../json/patch.ts";
import { Pieces } from "../json/pieces.ts";
import { jsonString } from "../json/text.ts";
import { type CloseReason, Leg } from "../legs/leg.ts";
import { legTrace } from "../legs/leg-trace.ts";
import { passedHeaders } from "../legs/passed-headers.ts";
import type { SharedHeaders } from "../legs/shared-headers.ts";
import { newSpanId } from "../telemetry/ids.ts";
import type { RequestRecord } from "../telemetry/record.ts";
import type { Worker } from "../workers/worker.ts";
import type { PassedHeaders } from "./answer.ts";
import { blame } from "./blame.ts";
import { explain } from "./explain.ts";
import type { Services } from "./services.ts";
import { checkWholeAnswer } from "./whole-answer.ts";

/** A request that one worker answers whole and buffered (embeddings and the like). */
export interface Forwarded {
  path: string;
  /** The client's headers that go on, and the body as the worker gets it. */
  headers: SharedHeaders;
  body: string;
  /** The name the client used, where the worker knows another; it is put back into the answer. */
  alias: string | undefined;
  record: RequestRecord;
  /** On a connection of its own (`Call.freshConnections`). */
  fresh: boolean;
  /** Milliseconds left of `timeouts.totalMs`; 0 = no limit. */
  limitMs: number;
  /** Told how to close the leg, before it is opened. */
  opening(close: (reason: CloseReason) => void): void;
}

export interface ForwardedAnswer {
  text: string;
  contentType: string;
  headers: PassedHeaders;
}

const ANSWER_BYTES = 268_435_456;

/**
 * One try at passing a request to one worker, which is blamed for what is its fault. Rejects with a Failure; after `opening`'s close
 * with whatever the leg's end looked like, which is then nobody's news. The lease is the caller's.
 */
export async function forwardTo(worker: Worker, request: Forwarded, services: Services): Promise<ForwardedAnswer> {
  const { config, clock, transport } = services;
  const { record, limitMs } = request;
  const leg = new Leg({
    role: "decode",
    worker: worker.name,
    url: worker.url + pathOn(worker.engine, request.path),
    headers: {
      "x-request-id": newSpanId() + newSpanId(),
      ...legTrace(record, ""),
      ...(worker.apiKey === undefined ? {} : { authorization: `Bearer ${worker.apiKey}` }),
    },
    shared: request.headers,
    body: new Pieces([request.body]),
    connectMs: config.timeouts.connectMs,
    fresh: request.fresh,
    transport,
    clock,
  });
  let late = false;
  const stopLimit =
    limitMs > 0
      ? clock.after(limitMs, () => {
          // Its status has come, and its words are bounded by themselves.
          if (leg.complaining) return;
          late = true;
          leg.close("deadline");
        })
      : nothing;
  request.opening((reason) => leg.close(reason));
  try {
    const answer = await answerOf(leg, request);
    worker.succeeded(clock.now());
    return answer;
  } catch (error) {
    const failure = late ? tooLate(config.timeouts.totalMs) : explain(error);
    const own = !leg.cutHere || leg.closed === "deadline";
    if (own && failure instanceof Failure) blame(worker, failure, clock.now());
    throw failure;
  } finally {
    stopLimit();
  }
}

/** vLLM has this one route without its version. */
function pathOn(engine: EngineName, path: string): string {
  return engine === "vllm" && path === "/v1/classify" ? "/classify" : path;
}

async function answerOf(leg: Leg, { alias }: Forwarded): Promise<ForwardedAnswer> {
  const head = await leg.open();
  if (head.status < 200 || head.status >= 300) throw statusFailure("decode", head, await leg.complaint());
  const { text, truncated } = await leg.text(head, ANSWER_BYTES);
  if (truncated) throw failed(502, "content", `The answer is larger than ${ANSWER_BYTES} bytes`);
  const headers = passedHeaders(head.headers);
  const contentType = head.headers.get("content-type") ?? "application/json";
  // As text a binary answer would be another one, and a page of HTML is none. A request may have asked for it: nobody is blamed.
  if (!contentType.toLowerCase().includes("json")) {
    throw new Failure("decode_failed", { status: 502, stage: "router", message: "The worker's answer is not JSON" });
  }
  checkWholeAnswer(head, text, "completions", headers);
  return { text: alias === undefined ? text : underName(text, alias), contentType, headers };
}

/** The answer's own `model`, where it has one, is what the client asked for (contract section 5, alias). */
function underName(text: string, name: string): string {
  const answer = scanAnswer(text);
  if (answer === undefined || findMember(answer, "model") === undefined) return text;
  const patch = new Patch(text);
  patch.set(answer, "model", jsonString(name));
  return patch.apply();
}

function tooLate(totalMs: number): Failure {
  return new Failure("decode_timeout", {
    status: 504,
    stage: "decode",
    kind: "timeout",
    message: `No complete answer within ${totalMs} ms`,
  });
}

function failed(status: number, kind: "content", message: string): Failure {
  return new Failure("decode_failed", { status, stage: "decode", kind, message });
}

function nothing(): void {}
