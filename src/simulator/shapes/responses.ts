import type { OutputToken, Sample } from "../generate.ts";
import type { JsonRecord } from "../json.ts";
import { responsesUsage } from "../usage.ts";
import { type Answer, countsOf, namedEvent, type Shape, textOf } from "./shape.ts";

/** `/v1/responses`: numbered events, one output item per channel, no end mark. */
export function createResponsesShape(answer: Answer): Shape {
  const { ask } = answer;
  const id = `resp_${answer.id}`;
  let sequence = 0;
  let output = -1;

  function event(type: string, members: JsonRecord): string {
    const numbered = { type, ...members, sequence_number: sequence };
    sequence += 1;
    return namedEvent(numbered);
  }

  function snapshot(status: string, items: JsonRecord[], more: JsonRecord = {}): JsonRecord {
    return {
      id,
      object: "response",
      created_at: answer.created,
      model: answer.model,
      status,
      output: items,
      instructions: ask.body.instructions ?? null,
      max_output_tokens: ask.body.max_output_tokens ?? null,
      parallel_tool_calls: true,
      tool_choice: ask.body.tool_choice ?? "auto",
      tools: ask.body.tools ?? [],
      temperature: ask.body.temperature ?? 1,
      top_p: ask.body.top_p ?? 1,
      incomplete_details: null,
      error: null,
      metadata: ask.body.metadata ?? null,
      usage: null,
      ...more,
    };
  }

  function itemId(channel: OutputToken["channel"]): string {
    return `${channel === "content" ? "msg" : channel === "tool" ? "fc" : "rs"}_${answer.id}`;
  }

  function item(sample: Sample, channel: OutputToken["channel"], status: string): JsonRecord {
    const text = status === "in_progress" ? "" : textOf(sample, channel);
    if (channel === "reasoning") {
      const content = text === "" ? [] : [{ type: "reasoning_text", text }];
      return { id: itemId(channel), type: "reasoning", summary: [], content, status };
    }
    if (channel === "tool") {
      const { id: call_id, name } = sample.toolCall ?? { id: "", name: "" };
      return { id: itemId(channel), type: "function_call", call_id, name, arguments: text, status };
    }
    const content = status === "in_progress" ? [] : [{ type: "output_text", text, annotations: [], logprobs: null }];
    return { id: itemId(channel), type: "message", role: "assistant", status, content };
  }

  function place(channel: OutputToken["channel"]): JsonRecord {
    const members: JsonRecord = { item_id: itemId(channel), output_index: output };
    return channel === "tool" ? members : { ...members, content_index: 0 };
  }

  function start(sample: Sample, channel: OutputToken["channel"]): string[] {
    output += 1;
    const events = [
      event("response.output_item.added", { output_index: output, item: item(sample, channel, "in_progress") }),
    ];
    if (channel === "content") {
      const part = { type: "output_text", text: "", annotations: [], logprobs: [] };
      events.push(event("response.content_part.added", { ...place(channel), part }));
    }
    return events;
  }

  function end(sample: Sample, channel: OutputToken["channel"]): string[] {
    const text = textOf(sample, channel);
    const events: string[] = [];
    if (channel === "content") {
      const part = { type: "output_text", text, annotations: [], logprobs: null };
      events.push(event("response.output_text.done", { ...place(channel), text, logprobs: [] }));
      events.push(event("response.content_part.done", { ...place(channel), part }));
    } else if (channel === "tool") {
      events.push(
        event("response.function_call_arguments.done", {
          ...place(channel),
          name: sample.toolCall?.name,
          arguments: text,
        }),
      );
    } else {
      events.push(event("response.reasoning_text.done", { ...place(channel), text }));
    }
    events.push(event("response.output_item.done", { output_index: output, item: item(sample, channel, "completed") }));
    return events;
  }

  function open(): string[] {
    return [
      event("response.created", { response: snapshot("in_progress", []) }),
      event("response.in_progress", { response: snapshot("in_progress", []) }),
    ];
  }

  function token(sample: Sample, at: number): string[] {
    const one = sample.tokens[at];
    if (one === undefined) return [];
    const before = sample.tokens[at - 1];
    const events: string[] = [];
    if (before?.channel !== one.channel) {
      if (before !== undefined) events.push(...end(sample, before.channel));
      events.push(...start(sample, one.channel));
    }
    const type =
      one.channel === "content"
        ? "response.output_text.delta"
        : one.channel === "tool"
          ? "response.function_call_arguments.delta"
          : "response.reasoning_text.delta";
    const more: JsonRecord = one.channel === "content" ? { logprobs: [] } : {};
    events.push(event(type, { ...place(one.channel), delta: one.text, ...more }));
    return events;
  }

  function final(sample: Sample): JsonRecord {
    const channels = [...new Set(sample.tokens.map((one) => one.channel))];
    const items = channels.map((channel) => item(sample, channel, "completed"));
    const usage = responsesUsage(countsOf(answer));
    if (sample.finish === "abort") {
      const error = { code: "server_error", message: answer.abort?.message ?? "Aborted" };
      return snapshot("failed", items, { error, usage });
    }
    if (sample.finish === "length") {
      return snapshot("incomplete", items, { incomplete_details: { reason: "max_output_tokens" }, usage });
    }
    return snapshot("completed", items, { usage });
  }

  function finish(sample: Sample): string[] {
    const last = sample.tokens.at(-1);
    const response = final(sample);
    const events = last === undefined ? [] : end(sample, last.channel);
    return [...events, event(`response.${String(response.status)}`, { response })];
  }

  function nothing(): string[] {
    return [];
  }

  function whole(): JsonRecord {
    return final(answer.samples[0] as Sample);
  }

  return { open, token, finish, usage: nothing, done: nothing, whole };
}
