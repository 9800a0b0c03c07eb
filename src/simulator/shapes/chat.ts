import type { Sample } from "../generate.ts";
import type { JsonRecord } from "../json.ts";
import { chatLogprob, promptLogprobs } from "../logprobs.ts";
import { promptIds } from "../prompt.ts";
import { openaiUsage } from "../usage.ts";
import { type Answer, countsOf, dataEvent, doneEvent, type Shape, textOf } from "./shape.ts";

/** `/v1/chat/completions`. */
export function createChatShape(answer: Answer): Shape {
  const { ask, samples } = answer;

  function chunk(choices: JsonRecord[], more: JsonRecord = {}): string {
    return dataEvent({
      id: answer.id,
      object: "chat.completion.chunk",
      created: answer.created,
      model: answer.model,
      choices,
      ...more,
    });
  }

  function choice(sample: Sample, delta: JsonRecord, more: JsonRecord = {}): JsonRecord {
    return { index: sample.index, delta, logprobs: null, finish_reason: null, ...more };
  }

  function open(): string[] {
    return samples.map((sample) => chunk([choice(sample, { role: "assistant", content: "" })]));
  }

  function token(sample: Sample, at: number): string[] {
    const one = sample.tokens[at];
    if (one === undefined) return [];
    const more: JsonRecord = {};
    if (ask.topLogprobs !== undefined) more.logprobs = { content: [chatLogprob(one, at, ask.topLogprobs)] };
    if (ask.returnTokenIds) more.token_ids = [one.id];
    if (one.channel === "reasoning") return [chunk([choice(sample, { reasoning_content: one.text }, more)])];
    if (one.channel === "content") return [chunk([choice(sample, { content: one.text }, more)])];
    const first = sample.tokens[at - 1]?.channel !== "tool";
    const call: JsonRecord = first
      ? {
          index: 0,
          id: sample.toolCall?.id,
          type: "function",
          function: { name: sample.toolCall?.name, arguments: one.text },
        }
      : { index: 0, function: { arguments: one.text } };
    return [chunk([choice(sample, { tool_calls: [call] }, more)])];
  }

  function finish(sample: Sample): string[] {
    return [chunk([choice(sample, {}, { finish_reason: sample.finish, ...stopMember(answer, sample) })])];
  }

  function usage(): string[] {
    return ask.includeUsage ? [chunk([], { usage: openaiUsage(countsOf(answer)) })] : [];
  }

  function wholeChoice(sample: Sample): JsonRecord {
    const content = textOf(sample, "content");
    const reasoning = textOf(sample, "reasoning");
    const message: JsonRecord = {
      role: "assistant",
      content: sample.toolCall === undefined ? content : null,
      reasoning_content: reasoning === "" ? null : reasoning,
      tool_calls: sample.toolCall === undefined ? [] : [wholeCall(sample)],
    };
    const logprobs =
      ask.topLogprobs === undefined
        ? null
        : { content: sample.tokens.map((one, at) => chatLogprob(one, at, ask.topLogprobs as number)) };
    const more: JsonRecord = ask.returnTokenIds ? { token_ids: sample.tokens.map((one) => one.id) } : {};
    return {
      index: sample.index,
      message,
      logprobs,
      finish_reason: sample.finish,
      ...stopMember(answer, sample),
      ...more,
    };
  }

  function whole(): JsonRecord {
    const more: JsonRecord = {};
    const prompt = ask.prompts[0];
    if (answer.inputLogprobs && ask.inputLogprobs !== undefined && prompt !== undefined) {
      more.prompt_logprobs = promptLogprobs(prompt, ask.inputLogprobs.top);
    }
    if (ask.returnTokenIds && prompt !== undefined) more.prompt_token_ids = promptIds(prompt);
    return {
      id: answer.id,
      object: "chat.completion",
      created: answer.created,
      model: answer.model,
      choices: samples.map(wholeChoice),
      usage: openaiUsage(countsOf(answer)),
      ...more,
    };
  }

  return { open, token, finish, usage, done: doneEvent, whole };
}

function wholeCall(sample: Sample): JsonRecord {
  const called = { name: sample.toolCall?.name, arguments: textOf(sample, "tool") };
  return { id: sample.toolCall?.id, type: "function", function: called };
}

/** What the engine says about the stop that matched: SGLang `matched_stop`, vLLM `stop_reason`. */
export function stopMember(answer: Answer, sample: Sample): JsonRecord {
  if (answer.engine === "sglang") return { matched_stop: sample.stopReason };
  return answer.engine === "openai" ? {} : { stop_reason: sample.stopReason };
}
