import type { Dialect, Role, Shape } from "../protocol.ts";

export const MODEL = "bench-model";
const ID = "0123456789abcdef0123456789abcdef";

/** Everything an engine may answer, written once per shape: an answer then costs its system calls and little else. */
export interface Replies {
  whole: Buffer;
  /** Head, role event and first token: engines send the role with the first token's flush. */
  opening: Buffer;
  token: Buffer;
  closing: Buffer;
  tokens: number;
}

function chunk(delta: string, finish: string): string {
  return `data: {"id":"chatcmpl-${ID}","object":"chat.completion.chunk","created":1764460800,"model":"${MODEL}","choices":[{"index":0,"delta":{${delta}},"logprobs":null,"finish_reason":${finish},"matched_stop":null}],"usage":null}\n\n`;
}

function httpChunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}

export function json(status: string, value: unknown): Buffer {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return Buffer.from(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}

/** `port` stands for the engine inside a vLLM hand-off. */
export function repliesFor(shape: Shape, dialect: Dialect, role: Role, port: number): Replies {
  const tokens = role === "prefill" ? 1 : shape.tokens;
  const text = "token ".repeat(Math.ceil(shape.chunkBytes / 6)).slice(0, shape.chunkBytes);
  const usage = {
    prompt_tokens: 32,
    total_tokens: 32 + tokens,
    completion_tokens: tokens,
    prompt_tokens_details: null,
  };
  const answer: Record<string, unknown> = {
    id: `chatcmpl-${ID}`,
    object: "chat.completion",
    created: 1764460800,
    model: MODEL,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: text.repeat(tokens), reasoning_content: null, tool_calls: null },
        logprobs: null,
        finish_reason: role === "prefill" ? "length" : "stop",
        matched_stop: null,
      },
    ],
    usage,
  };
  if (role === "prefill" && dialect === "vllm") {
    answer.kv_transfer_params = {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [[1, 2, 3, 4, 5, 6, 7, 8]],
      remote_engine_id: `engine-${port}`,
      remote_request_id: `chatcmpl-${ID}`,
      remote_host: "127.0.0.1",
      remote_port: 5600,
      tp_size: 1,
    };
  }
  const token = chunk(`"content":"${text}"`, "null");
  const head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
  return {
    whole: json("200 OK", answer),
    opening: Buffer.from(head + httpChunk(chunk('"role":"assistant","content":""', "null") + token)),
    token: Buffer.from(httpChunk(token)),
    closing: Buffer.from(`${httpChunk(`${chunk("", '"stop"')}data: [DONE]\n\n`)}0\r\n\r\n`),
    tokens,
  };
}

/** A transfer that failed, as SGLang's OpenAI routes say it. */
export const PREFILL_FAILURE = json("500 Internal Server Error", {
  object: "error",
  message: "KV transfer failed",
  type: "InternalServerError",
  param: null,
  code: 500,
});

const NOT_FOUND = json("404 Not Found", { detail: "Not Found" });
const EMPTY = json("200 OK", {});

/** What a router asks an engine besides requests: enough of SGLang and vLLM for a router to register and probe it. */
export function sideReply(path: string, dialect: Dialect, role: Role, running: number): Buffer {
  const sglang = dialect === "sglang";
  switch (path) {
    case "/health":
    case "/health_generate":
    case "/ready":
    case "/ping":
    case "/flush_cache":
    case "/abort_request":
      return EMPTY;
    case "/v1/models": {
      const model = {
        id: MODEL,
        object: "model",
        created: 1764460800,
        owned_by: dialect,
        root: MODEL,
        max_model_len: 131072,
      };
      return json("200 OK", { object: "list", data: [model] });
    }
    case "/version":
      return sglang ? NOT_FOUND : json("200 OK", { version: "0.29.0" });
    case "/server_info":
    case "/get_server_info":
      return sglang ? json("200 OK", serverInfo(role)) : NOT_FOUND;
    case "/model_info":
    case "/get_model_info":
      return sglang
        ? json("200 OK", {
            model_path: MODEL,
            tokenizer_path: MODEL,
            is_generation: true,
            model_type: "llama",
            architectures: ["LlamaForCausalLM"],
          })
        : NOT_FOUND;
    case "/v1/loads":
    case "/get_load":
      return sglang
        ? json("200 OK", [{ dp_rank: 0, num_reqs: running, num_waiting_reqs: 0, num_tokens: running * 100 }])
        : NOT_FOUND;
    default:
      return NOT_FOUND;
  }
}

function serverInfo(role: Role): Record<string, unknown> {
  return {
    model_path: MODEL,
    served_model_name: MODEL,
    tokenizer_path: MODEL,
    version: "0.5.9",
    tp_size: 1,
    dp_size: 1,
    max_running_requests: 65536,
    max_total_num_tokens: 1048576,
    context_length: 131072,
    disaggregation_mode: role === "aggregated" ? "null" : role,
    disaggregation_bootstrap_port: 8998,
    status: "ready",
  };
}
