import type { Sample } from "../generate.ts";
import type { JsonRecord } from "../json.ts";
import { codePoints, completionLogprobs, promptLogprobs, promptTokens } from "../logprobs.ts";
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

  /** The API has no opening chunk; an echoed prompt comes with the first token (seen on a real vLLM; SGLang's source says so too). */
  function open(): string[] {
    return [];
  }

  function token(sample: Sample, at: number): string[] {
    const one = sample.tokens[at];
    if (one === undefined) return [];
    const more: JsonRecord = {};
    if (ask.topLogprobs !== undefined) more.logprobs = logprobsOf(sample, at, at + 1, ask.topLogprobs);
    if (ask.returnTokenIds) more.token_ids = [one.id];
    return [chunk([choice(sample, at === 0 ? echo(sample) + one.text : one.text, more)])];
  }

  function finish(sample: Sample): string[] {
    const text = sample.tokens.length === 0 ? echo(sample) : "";
    return [chunk([choice(sample, text, { finish_reason: sample.finish, ...stopMember(answer, sample) })])];
  }

  function echo(sample: Sample): string {
    return ask.echo ? sample.prompt.text : "";
  }

  /** Of a run of the sample's tokens; the first run has an echoed prompt before it, whose very first token has no logprob. */
  function logprobsOf(sample: Sample, from: number, to: number, top: number): JsonRecord {
    const prompt = ask.echo ? promptTokens(sample.prompt) : [];
    let offset = 0;
    for (const before of [...prompt, ...sample.tokens.slice(0, from)]) offset += codePoints(before);
    const start = answer.engine === "sglang" ? undefined : offset;
    const own = completionLogprobs(sample.tokens.slice(from, to), from, start, top);
    if (from > 0 || prompt.length === 0 || !answer.inputLogprobs) return own;
    const echoed = completionLogprobs(prompt, 0, answer.engine === "sglang" ? undefined : 0, top);
    (echoed.token_logprobs as (number | null)[])[0] = null;
    (echoed.top_logprobs as (JsonRecord | null)[])[0] = null;
    const joined: JsonRecord = {};
    for (const key of Object.keys(own)) {
      joined[key] = [...(echoed[key] as JsonRecord[]), ...(own[key] as JsonRecord[])];
    }
    return joined;
  }

  function usage(): string[] {
    return ask.includeUsage ? [chunk([], { usage: openaiUsage(countsOf(answer)) })] : [];
  }

  function wholeChoice(sample: Sample): JsonRecord {
    const own = textOf(sample, "reasoning") + textOf(sample, "content") + textOf(sample, "tool");
    const more: JsonRecord = { ...stopMember(answer, sample) };
    if (ask.topLogprobs !== undefined) more.logprobs = logprobsOf(sample, 0, sample.tokens.length, ask.topLogprobs);
    if (ask.returnTokenIds) {
      more.token_ids = sample.tokens.map((one) => one.id);
      more.prompt_token_ids = promptIds(sample.prompt);
    }
    if (answer.inputLogprobs && ask.inputLogprobs !== undefined && answer.engine === "vllm") {
      more.prompt_logprobs = promptLogprobs(sample.prompt, ask.inputLogprobs.top);
    }
    return choice(sample, echo(sample) + own, { ...more, finish_reason: sample.finish });
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
