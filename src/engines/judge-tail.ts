import type { EngineFault } from "../errors/failure.ts";
import { JsonError, type JsonObject, scanValue } from "../json/scan.ts";
import type { EngineOutput, PrefillOutput } from "../prefill/output.ts";
import type { Api } from "../sse/api.ts";
import { bufferedFault } from "../sse/marks.ts";
import { scanAnswer } from "./answer.ts";
import type { EngineAnswer } from "./dialect.ts";
import { contentFailure, statusFailure, tooLongToKeep } from "./failures.ts";
import { judgeStream, looksLikeStream } from "./judge-stream.ts";
import { namesCachedTokens, promptTokensDetails } from "./prompt-usage.ts";

/** What of an answer the client may need, read by the dialect that knows where it stands. */
export type InputLogprobsReader = (doc: JsonObject) => unknown;

// What a cut JSON text can still tell. In a JSON string these quotes would have a backslash before them, so text never matches.
const FAILED_FINISH =
  /"(?:finish_reason|stop_reason)"\s*:\s*(?:\{\s*"type"\s*:\s*)?"(?:abort|aborted|error|failed|cancelled|canceled|timeout)"/;
const FAILED_HEAD = /^\s*\{(?:\s*"object"\s*:\s*"error"|\s*"error"\s*:\s*[^n\s])/;

/**
 * Judges the complete answer to a prefill leg whose decode is already running (SGLang, Mooncake, NIXL push): by its status, by
 * its content, and, for an event stream, by its end mark. The engine's token is nobody's; what counts is that prefill is done.
 *
 * An answer of nothing but comments or white space is taken as good: it came whole, with status 200, and claims nothing.
 * A `truncated` answer is judged by what was kept of it.
 *
 * @param inputLogprobs present when the client asked for them
 * @param unsaid what a whole answer means that says nothing of cached tokens
 */
export function judgeTail(
  api: Api,
  answer: EngineAnswer,
  inputLogprobs?: InputLogprobsReader,
  unsaid: EngineOutput = {},
): PrefillOutput {
  if (answer.status < 200 || answer.status > 299) {
    return { error: statusFailure("prefill", answer, answer.text) };
  }
  const content = contentStart(answer.text);
  const text = content === 0 ? answer.text : answer.text.slice(content);
  if (text === "") return { data: {} };
  if (looksLikeStream(text)) {
    const stream = judgeStream(api, text);
    if (stream.fault !== undefined) return { error: contentFailure(answer, stream.fault) };
    if (stream.ended || answer.truncated) return { data: {} };
    return failed(answer, { message: "Prefill's event stream ended without its end mark" });
  }
  const fault = bufferedFault(text, api);
  if (fault !== undefined) return failed(answer, fault);
  // `/generate` answers a batch with a list; of its items there is nothing to report.
  if (text.startsWith("[") && isJson(text)) return { data: {} };
  // As a rule there is nothing in it that a client may need, and no reason to take it apart.
  if (inputLogprobs === undefined && !namesCachedTokens(api, text)) {
    return text.startsWith("{") && isJson(text) ? { data: unsaid } : judgeUnreadable(answer, text);
  }
  if (inputLogprobs !== undefined && answer.truncated) {
    return { error: tooLongToKeep("The input logprobs are") };
  }
  const doc = scanAnswer(text);
  if (doc === undefined) return judgeUnreadable(answer, text);
  const details = promptTokensDetails(api, doc);
  const logprobs = inputLogprobs?.(doc);
  return {
    data: {
      ...(details === undefined ? unsaid : { completionUsage: { promptTokensDetails: details } }),
      ...(logprobs === undefined ? {} : { inputLogprobs: logprobs }),
    },
  };
}

/** Where an answer's content begins: behind a byte order mark, white space and comment lines, which keep a connection alive. */
export function contentStart(text: string): number {
  let at = 0;
  for (;;) {
    const c = text.charCodeAt(at);
    if (c <= 0x20 || c === 0xfeff) {
      at++;
    } else if (c === 0x3a) {
      while (at < text.length && text.charCodeAt(at) !== 0x0a && text.charCodeAt(at) !== 0x0d) at++;
    } else {
      return at;
    }
  }
}

function isJson(text: string): boolean {
  try {
    scanValue(text);
    return true;
  } catch (error) {
    if (error instanceof JsonError) return false;
    throw error;
  }
}

function judgeUnreadable(answer: EngineAnswer, text: string): PrefillOutput {
  if (!answer.truncated) return failed(answer, { message: "Prefill's answer is neither JSON nor an event stream" });
  if (FAILED_HEAD.test(text)) return failed(answer, { message: "Prefill answered with an error too long to be read" });
  if (FAILED_FINISH.test(text)) return failed(answer, { message: "Prefill ended without completing the hand-off" });
  return { data: {} };
}

function failed(answer: EngineAnswer, fault: EngineFault): PrefillOutput {
  return { error: contentFailure(answer, fault) };
}
