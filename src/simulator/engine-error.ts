import type { Api } from "../sse/api.ts";
import type { SimulatedEngineName } from "./options.ts";
import { jsonScript, type Script } from "./script.ts";

/** Something an engine refuses or fails at. */
export interface EngineError {
  status: number;
  message: string;
  param?: string | null;
}

/** Thrown by an engine's checks; becomes a real HTTP status. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly error: EngineError;
  constructor(status: number, message: string, param: string | null = null) {
    super(message);
    this.error = { status, message, param };
  }
}

/** The error as the engine's own JSON body. */
export function errorBody(engine: SimulatedEngineName, api: Api | undefined, error: EngineError): string {
  const { status, message, param = null } = error;
  if (api === "messages") return JSON.stringify({ type: "error", error: { type: messagesType(status), message } });
  const type = typeName(engine, status);
  if (engine === "sglang") {
    if (api === "generate") return JSON.stringify({ error: { message } });
    return JSON.stringify({ object: "error", message, type, param, code: status });
  }
  if (engine === "trtllm") {
    // Its own checks answer flat; what falls through its handlers is one bare text.
    if (status >= 500) return JSON.stringify({ error: message });
    return JSON.stringify({ object: "error", message, type, param, code: status });
  }
  return JSON.stringify({ error: { message, type, param, code: status } });
}

export function errorScript(engine: SimulatedEngineName, api: Api | undefined, error: EngineError): Script {
  return jsonScript(error.status, errorBody(engine, api, error), error.status === 429 ? [["retry-after", "1"]] : []);
}

/**
 * The error as events inside a stream, with the end mark the engine sends after it. Empty: this engine has no frame
 * and just drops the connection (TensorRT-LLM).
 */
export function errorEvents(engine: SimulatedEngineName, api: Api, error: EngineError): string[] {
  const { status, message, param = null } = error;
  if (engine === "trtllm") return [];
  if (api === "messages") {
    return [`event: error\ndata: ${JSON.stringify({ type: "error", error: { type: "api_error", message } })}\n\n`];
  }
  const type = typeName(engine, status);
  if (api === "responses") {
    return [`event: error\ndata: ${JSON.stringify({ type: "error", code: type, message, param })}\n\n`];
  }
  const code = status;
  if (engine === "sglang") {
    const body = api === "generate" ? { message, code } : { object: "error", message, type, param, code };
    return [`data: ${JSON.stringify({ error: body })}\n\n`, "data: [DONE]\n\n"];
  }
  // Seen on a real vLLM: with spaces, unlike its ordinary chunks.
  const text = `{"error": {"message": ${JSON.stringify(message)}, "type": "${type}", "param": null, "code": ${code}}}`;
  return [`data: ${text}\n\n`, "data: [DONE]\n\n"];
}

/** The old flat error event of SGLang's OpenAI routes. */
export function flatErrorEvents(error: EngineError): string[] {
  const body = {
    object: "error",
    message: error.message,
    type: "InternalServerError",
    param: null,
    code: error.status,
  };
  return [`data: ${JSON.stringify(body)}\n\n`, "data: [DONE]\n\n"];
}

function typeName(engine: SimulatedEngineName, status: number): string {
  if (engine === "openai") return status < 500 ? "invalid_request_error" : "server_error";
  if (status === 404) return "NotFoundError";
  if (status === 429) return "RateLimitError";
  if (status === 503) return "ServiceUnavailableError";
  return status < 500 ? "BadRequestError" : "InternalServerError";
}

function messagesType(status: number): string {
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "api_error";
}
