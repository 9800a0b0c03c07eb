import type { FrameError } from "./api.ts";
import { boundedText } from "./bounded-text.ts";

/** Types of ours that the Messages API has no name for; an engine's own types stay what they are. */
const routerTypes = new Set(["", "server_error", "service_unavailable", "timeout_error"]);

/** A message is never empty: clients test `error.message` for truth, and some drop the error without it. */
function message(error: FrameError): string {
  const said = error.message.trim() === "" ? "The request failed without a message" : error.message;
  // Half a surrogate pair would leave as an escape that no other language can print.
  return boundedText(said.toWellFormed());
}

// `JSON.stringify` escapes CR and LF, so each frame is one data line whatever an engine's message holds.

/** chat/completions, completions, /generate: no `event` line (openai-python would not look into it) and no `choices` (some versions of the AI SDK would ignore it). */
export function openAiFrame(error: FrameError): string {
  const { type, code, param, stage } = error;
  return `data: ${JSON.stringify({ error: { message: message(error), type, code, param, stage } })}\n\n`;
}

/** /v1/responses: the flat event of the API, with the nested object beside it, without which the `openai` package does not raise. */
export function responsesFrame(error: FrameError, sequence: number): string {
  const { type, code, param } = error;
  const text = message(error);
  const event = {
    type: "error",
    code,
    message: text,
    param,
    sequence_number: sequence,
    error: { message: text, type, code },
  };
  return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
}

/** /v1/messages: the error event of that API. */
export function messagesFrame(error: FrameError): string {
  const type = routerTypes.has(error.type) ? "api_error" : error.type;
  return `event: error\ndata: ${JSON.stringify({ type: "error", error: { type, message: message(error) } })}\n\n`;
}
