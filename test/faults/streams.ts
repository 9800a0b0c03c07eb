import type { Api } from "../../src/sse/api.ts";

/** The five APIs in the order of the contract. */
export const apis: readonly Api[] = ["chat", "completions", "responses", "messages", "generate"];

/**
 * - `lead`: says nothing yet (role chunk and the like); commits nothing
 * - `answer`: carries an answer
 * - `middle`: after an answer, neither answer nor finish
 * - `finish`: the last open choice is finished
 * - `end`: the API's end mark
 */
export type EventRole = "lead" | "answer" | "middle" | "finish" | "end";

export interface ScriptedEvent {
  role: EventRole;
  bytes: Buffer;
}

export const paths: Readonly<Record<Api, string>> = {
  chat: "/v1/chat/completions",
  completions: "/v1/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  generate: "/generate",
};

/** What decode says when nothing goes wrong: several scripts and line ends that a byte-wise reader would stumble over. */
export function answerEvents(api: Api, words: readonly string[] = ["Grüße", ", ", "世界", " 👩‍🚀"]): ScriptedEvent[] {
  switch (api) {
    case "chat":
      return [
        data("lead", chatChunk({ role: "assistant", content: "" })),
        ...words.map((word) => data("answer", chatChunk({ content: word }))),
        data("finish", chatChunk({}, "stop")),
        text("end", "data: [DONE]\n\n"),
      ];
    case "completions":
      return [
        data("lead", completionChunk("")),
        ...words.map((word) => data("answer", completionChunk(word))),
        data("finish", completionChunk("", "stop")),
        text("end", "data: [DONE]\n\n"),
      ];
    case "generate":
      return [
        data("lead", { text: "", meta_info: { id: "g-1", finish_reason: null } }),
        ...words.map((_, at) => data("answer", generateItem(words.slice(0, at + 1).join("")))),
        data("finish", { text: words.join(""), meta_info: { id: "g-1", finish_reason: { type: "stop", matched: 2 } } }),
        text("end", "data: [DONE]\n\n"),
      ];
    case "responses":
      return responsesEvents(words);
    case "messages":
      return [
        named("lead", {
          type: "message_start",
          message: { id: "m-1", type: "message", role: "assistant", content: [] },
        }),
        named("lead", { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
        ...words.map((word) =>
          named("answer", { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: word } }),
        ),
        named("middle", { type: "content_block_stop", index: 0 }),
        named("finish", { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 4 } }),
        named("end", { type: "message_stop" }),
      ];
  }
}

function responsesEvents(words: readonly string[]): ScriptedEvent[] {
  const bare: [EventRole, TypedEvent][] = [
    ["lead", { type: "response.created", response: { id: "r-1", status: "in_progress" } }],
    ["lead", { type: "response.in_progress", response: { id: "r-1", status: "in_progress" } }],
    ["answer", { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "i-1" } }],
    ...words.map((delta): [EventRole, TypedEvent] => [
      "answer",
      { type: "response.output_text.delta", output_index: 0, content_index: 0, delta },
    ]),
    ["middle", { type: "response.output_text.done", output_index: 0, content_index: 0, text: words.join("") }],
    ["finish", { type: "response.completed", response: { id: "r-1", status: "completed", error: null } }],
  ];
  return bare.map(([role, value], at) => named(role, { ...value, sequence_number: at }));
}

/** One more whole event of content, for streams without end. */
export function contentEvent(api: Api, word: string): Buffer {
  return (
    answerEvents(api, [word]).find(({ role }) => role === "answer" && api !== "responses")?.bytes ?? Buffer.from("")
  );
}

/** Decode's buffered answer. */
export function answerBody(api: Api): string {
  switch (api) {
    case "chat":
      return '{"id":"c-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Grüße, 世界"},"finish_reason":"stop","x_own":{"k":[1,{}]}}],"usage":{"prompt_tokens":9,"completion_tokens":4},"x_engine":9007199254740993}';
    case "completions":
      return '{"id":"c-1","object":"text_completion","choices":[{"index":0,"text":"Grüße, 世界","finish_reason":"length"}],"x_engine":{}}';
    case "generate":
      return '{"text":"Grüße, 世界","meta_info":{"id":"g-1","finish_reason":{"type":"stop","matched":2},"completion_tokens":4}}';
    case "responses":
      return '{"id":"r-1","object":"response","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Grüße, 世界"}]}]}';
    case "messages":
      return '{"id":"m-1","type":"message","role":"assistant","content":[{"type":"text","text":"Grüße, 世界"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":4}}';
  }
}

/** A failure that stands inside a 200: an error object. 529 is a status of its own, so it shows whether it was kept. */
export const errorInside = '{"error":{"message":"the engine is on fire","type":"overloaded","param":null,"code":529}}';
/** The same as an event that the API's client libraries raise on, so it is passed on unchanged. */
export function errorEvent(api: Api): Buffer {
  if (api === "messages") {
    return Buffer.from(
      'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"the engine is on fire"}}\n\n',
    );
  }
  return Buffer.from(`data: ${errorInside}\n\n`);
}

/** The engine gave up under a good status: an abort as finish reason, or the API's own word for it. */
export function abortEvent(api: Api): Buffer {
  switch (api) {
    case "chat":
      return data("finish", chatChunk({}, "abort")).bytes;
    case "completions":
      return data("finish", completionChunk("", "abort")).bytes;
    case "generate":
      return data("finish", {
        text: "",
        meta_info: { finish_reason: { type: "abort", message: "KV transfer failed", status_code: 500 } },
      }).bytes;
    case "responses":
      return named("finish", {
        type: "response.failed",
        response: { id: "r-1", status: "failed", error: { code: "server_error", message: "KV transfer failed" } },
        sequence_number: 9,
      }).bytes;
    case "messages":
      return named("finish", { type: "message_delta", delta: { stop_reason: "abort" } }).bytes;
  }
}

export function abortBody(api: Api): string {
  switch (api) {
    case "chat":
      return '{"id":"c-1","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"abort"}]}';
    case "completions":
      return '{"id":"c-1","choices":[{"index":0,"text":"","finish_reason":"abort"}]}';
    case "generate":
      return '{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"KV transfer failed","status_code":500}}}';
    case "responses":
      return '{"id":"r-1","object":"response","status":"failed","error":{"code":"server_error","message":"KV transfer failed"}}';
    case "messages":
      return '{"id":"m-1","type":"message","content":[],"stop_reason":"abort"}';
  }
}

/** A client's body. */
export function requestBody(api: Api, stream: boolean, prompt = "hello"): string {
  const common = { model: "m", stream };
  switch (api) {
    case "chat":
    case "messages":
      return JSON.stringify({ ...common, max_tokens: 16, messages: [{ role: "user", content: prompt }] });
    case "completions":
      return JSON.stringify({ ...common, max_tokens: 16, prompt });
    case "responses":
      return JSON.stringify({ ...common, max_output_tokens: 16, input: prompt });
    case "generate":
      return JSON.stringify({ ...common, text: prompt, sampling_params: { max_new_tokens: 16 } });
  }
}

function chatChunk(delta: unknown, reason: string | null = null): unknown {
  return {
    id: "c-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta, finish_reason: reason }],
  };
}

function completionChunk(words: string, reason: string | null = null): unknown {
  return { id: "c-1", object: "text_completion", choices: [{ index: 0, text: words, finish_reason: reason }] };
}

function generateItem(words: string): unknown {
  return { text: words, meta_info: { id: "g-1", finish_reason: null } };
}

interface TypedEvent {
  type: string;
  [member: string]: unknown;
}

function data(role: EventRole, value: unknown): ScriptedEvent {
  return text(role, `data: ${JSON.stringify(value)}\n\n`);
}

function named(role: EventRole, value: TypedEvent): ScriptedEvent {
  return text(role, `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`);
}

function text(role: EventRole, bytes: string): ScriptedEvent {
  return { role, bytes: Buffer.from(bytes) };
}
