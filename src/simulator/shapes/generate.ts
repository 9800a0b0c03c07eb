import type { Sample } from "../generate.ts";
import type { Json, JsonRecord } from "../json.ts";
import { alternatives, inputTops, inputTriples, triple } from "../logprobs.ts";
import { type Answer, dataEvent, doneEvent, type Shape } from "./shape.ts";

/** SGLang's `/generate`. Its stream repeats the whole text so far in every event. */
export function createGenerateShape(answer: Answer): Shape {
  const { ask, samples } = answer;
  const many = samples.length > 1 || ask.batch;
  const withText = ask.body.return_text_in_logprobs === true;

  function finishReason(sample: Sample): Json {
    if (sample.finish === "abort") {
      const status = answer.abort?.status ?? 500;
      return {
        type: "abort",
        message: answer.abort?.message ?? "Aborted",
        status_code: status,
        err_type: "InternalServerError",
      };
    }
    if (sample.finish === "length") return { type: "length", length: sample.tokens.length };
    return { type: "stop", matched: sample.stopReason };
  }

  function item(sample: Sample, upTo: number, finished: boolean): JsonRecord {
    const tokens = sample.tokens.slice(0, upTo);
    const meta: JsonRecord = {
      id: many ? `${answer.id}-${sample.index}` : answer.id,
      finish_reason: finished ? finishReason(sample) : null,
      prompt_tokens: sample.prompt.tokens,
      weight_version: "default",
      total_retractions: 0,
      completion_tokens: tokens.length,
      cached_tokens: answer.cached,
    };
    if (ask.topLogprobs !== undefined) {
      const top = ask.topLogprobs;
      meta.output_token_logprobs = tokens.map((token, at) => triple(token, at, withText));
      if (top > 0) {
        meta.output_top_logprobs = tokens.map((token, at) =>
          alternatives(token, at, top).map((one) => triple(one, at, withText)),
        );
      }
      const input = answer.inputLogprobs ? ask.inputLogprobs : undefined;
      meta.input_token_logprobs = input === undefined ? [] : inputTriples(sample.prompt, input.start, withText);
      if (top > 0) {
        meta.input_top_logprobs = input === undefined ? [] : inputTops(sample.prompt, input.start, input.top, withText);
      }
    }
    const text = tokens.map((token) => token.text).join("");
    const out: JsonRecord = { text, output_ids: tokens.map((token) => token.id), meta_info: meta };
    if (many) out.index = sample.index;
    return out;
  }

  function open(): string[] {
    return [];
  }

  /** The last token comes with the finish reason. */
  function token(sample: Sample, at: number): string[] {
    return at + 1 >= sample.tokens.length ? [] : [dataEvent(item(sample, at + 1, false))];
  }

  function finish(sample: Sample): string[] {
    return [dataEvent(item(sample, sample.tokens.length, true))];
  }

  function usage(): string[] {
    return [];
  }

  function wholeItems(): JsonRecord[] {
    return samples.map(function describe(sample) {
      const out = item(sample, sample.tokens.length, true);
      delete out.index;
      return out;
    });
  }

  function whole(): JsonRecord {
    return wholeItems()[0] as JsonRecord;
  }

  return { open, token, finish, usage, done: doneEvent, whole, items: many ? wholeItems : undefined };
}
