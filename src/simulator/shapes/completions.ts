import type { Sample } from "../generate.ts";
import type { JsonRecord } from "../json.ts";
import { completionLogprobs, promptLogprobs, promptTokens } from "../logprobs.ts";
import { promptIds } from "../prompt.ts";
import { openaiUsage } from "../usage.ts";
import { stopMember } from "./chat.ts";
import { type Answer, countsOf, dataEvent, doneEvent, type Shape, textOf } from "./shape.ts";

/** `/v1/completions`. */
export function createCompletionsShape(answer: Answer): Shape {
  const { ask, samples } = answer;

  function chunk(choices: JsonRecord[], more: JsonRecord = {}): string {
    return dataEvent({
      id: answer.id,
      object: "text_completion",
      created: answer.created,
      model: answer.model,
      choices,
      ...more,
    });
  }

  function choice(sample: Sample, text: string, more: JsonRecord = {}): JsonRecord {
    return { index: sample.index, text, logprobs: null, finish_reason: null, ...more };
  }

  /** The API has no opening chunk; an echoed prompt is the first text. */
  function open(): string[] {
    if (!ask.echo) return [];
    return samples.map((sample) => chunk([choice(sample, sample.prompt.text)]));
  }

  function token(sample: Sample, at: number): string[] {
    const one = sample.tokens[at];
    if (one === undefined) return [];
    const more: JsonRecord = {};
    if (ask.topLogprobs !== undefined) {
      let offset = ask.echo ? sample.prompt.text.length : 0;
      for (const before of sample.tokens.slice(0, at)) offset += before.text.length;
      more.logprobs = completionLogprobs([one], at, offset, ask.topLogprobs);
    }
    if (ask.returnTokenIds) more.token_ids = [one.id];
    return [chunk([choice(sample, one.text, more)])];
  }

  function finish(sample: Sample): string[] {
    return [chunk([choice(sample, "", { finish_reason: sample.finish, ...stopMember(answer, sample) })])];
  }

  function usage(): string[] {
    return ask.includeUsage ? [chunk([], { usage: openaiUsage(countsOf(answer)) })] : [];
  }

  function wholeChoice(sample: Sample): JsonRecord {
    const own = textOf(sample, "reasoning") + textOf(sample, "content") + textOf(sample, "tool");
    const more: JsonRecord = { ...stopMember(answer, sample) };
    if (ask.topLogprobs !== undefined) more.logprobs = wholeLogprobs(sample, ask.topLogprobs);
    if (ask.returnTokenIds) {
      more.token_ids = sample.tokens.map((one) => one.id);
      more.prompt_token_ids = promptIds(sample.prompt);
    }
    if (answer.inputLogprobs && ask.inputLogprobs !== undefined && answer.engine === "vllm") {
      more.prompt_logprobs = promptLogprobs(sample.prompt, ask.inputLogprobs.top);
    }
    return choice(sample, ask.echo ? sample.prompt.text + own : own, { ...more, finish_reason: sample.finish });
  }

  /** With `echo` the prompt's tokens come first; the very first one has no logprob. */
  function wholeLogprobs(sample: Sample, top: number): JsonRecord {
    if (!ask.echo) return completionLogprobs(sample.tokens, 0, 0, top);
    const prompt = promptTokens(sample.prompt);
    const own = completionLogprobs(sample.tokens, 0, sample.prompt.text.length, top);
    const echoed = completionLogprobs(prompt, 0, 0, top);
    if (!answer.inputLogprobs) return own;
    (echoed.token_logprobs as (number | null)[])[0] = null;
    (echoed.top_logprobs as (JsonRecord | null)[])[0] = null;
    const joined: JsonRecord = {};
    for (const key of Object.keys(own)) {
      joined[key] = [...(echoed[key] as JsonRecord[]), ...(own[key] as JsonRecord[])];
    }
    return joined;
  }

  function whole(): JsonRecord {
    return {
      id: answer.id,
      object: "text_completion",
      created: answer.created,
      model: answer.model,
      choices: samples.map(wholeChoice),
      usage: openaiUsage(countsOf(answer)),
    };
  }

  return { open, token, finish, usage, done: doneEvent, whole };
}
