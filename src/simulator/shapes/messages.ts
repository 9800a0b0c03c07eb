import type { OutputToken, Sample } from "../generate.ts";
import { isRecord, type Json, type JsonRecord, parseJson } from "../json.ts";
import { messagesUsage } from "../usage.ts";
import { type Answer, countsOf, namedEvent, type Shape, textOf } from "./shape.ts";

/** `/v1/messages`: named events, one content block per channel, ended by `message_stop`. */
export function createMessagesShape(answer: Answer): Shape {
  const id = `msg_${answer.id}`;
  const counts = countsOf(answer);
  let block = -1;

  function open(): string[] {
    // Before the first token vLLM knows the prompt's length and SGLang nothing.
    const known = answer.engine === "sglang" ? 0 : counts.prompt;
    const usage: JsonRecord = { input_tokens: known, output_tokens: 0 };
    const message: JsonRecord = {
      id,
      type: "message",
      role: "assistant",
      content: [],
      model: answer.model,
      stop_reason: null,
      stop_sequence: null,
      usage,
    };
    return [namedEvent({ type: "message_start", message })];
  }

  function start(sample: Sample, channel: OutputToken["channel"]): string {
    block += 1;
    const content_block: JsonRecord =
      channel === "content"
        ? { type: "text", text: "" }
        : channel === "reasoning"
          ? { type: "thinking", thinking: "", signature: "" }
          : { type: "tool_use", id: sample.toolCall?.id, name: sample.toolCall?.name, input: {} };
    return namedEvent({ type: "content_block_start", index: block, content_block });
  }

  function stop(): string {
    return namedEvent({ type: "content_block_stop", index: block });
  }

  function token(sample: Sample, at: number): string[] {
    const one = sample.tokens[at];
    if (one === undefined) return [];
    const before = sample.tokens[at - 1];
    const events: string[] = [];
    if (before?.channel !== one.channel) {
      if (before !== undefined) events.push(stop());
      events.push(start(sample, one.channel));
    }
    const delta: JsonRecord =
      one.channel === "content"
        ? { type: "text_delta", text: one.text }
        : one.channel === "reasoning"
          ? { type: "thinking_delta", thinking: one.text }
          : { type: "input_json_delta", partial_json: one.text };
    events.push(namedEvent({ type: "content_block_delta", index: block, delta }));
    return events;
  }

  function stopReason(sample: Sample): JsonRecord {
    const reasons = { stop: "end_turn", length: "max_tokens", tool_calls: "tool_use", abort: "abort" } as const;
    const matched = sample.finish === "stop" && sample.stopReason !== null;
    return {
      stop_reason: matched ? "stop_sequence" : reasons[sample.finish],
      stop_sequence: matched ? sample.stopReason : null,
    };
  }

  function finish(sample: Sample): string[] {
    const events = block >= 0 ? [stop()] : [];
    return [
      ...events,
      namedEvent({ type: "message_delta", delta: stopReason(sample), usage: messagesUsage(counts, answer.engine) }),
    ];
  }

  function done(): string[] {
    return [namedEvent({ type: "message_stop" })];
  }

  function usage(): string[] {
    return [];
  }

  function whole(): JsonRecord {
    const sample = answer.samples[0] as Sample;
    const content: Json[] = [];
    const thinking = textOf(sample, "reasoning");
    const text = textOf(sample, "content");
    if (thinking !== "") content.push({ type: "thinking", thinking, signature: "" });
    if (text !== "") content.push({ type: "text", text });
    if (sample.toolCall !== undefined) {
      content.push({ type: "tool_use", ...sample.toolCall, input: readInput(textOf(sample, "tool")) });
    }
    return {
      id,
      type: "message",
      role: "assistant",
      content,
      model: answer.model,
      ...stopReason(sample),
      usage: messagesUsage(counts, answer.engine),
    };
  }

  return { open, token, finish, usage, done, whole };
}

/** Arguments that a limit has cut are no JSON; the API then shows an empty object. */
function readInput(text: string): JsonRecord {
  try {
    const value = parseJson(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}
