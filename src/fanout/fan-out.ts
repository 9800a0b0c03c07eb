import { type Answer, type ClientSource, notAStream } from "../attempt/answer.ts";
import type { Call } from "../attempt/call.ts";
import { usageOf } from "../attempt/usage.ts";
import { ClientGone, Failure } from "../errors/failure.ts";
import type { Clock } from "../runtime/clock.ts";
import type { ChoiceInput } from "../workers/policy.ts";
import { mergeBuffered } from "./merge-buffered.ts";
import { type MergedPart, MergedSource } from "./merged-source.ts";
import type { Part, Parts } from "./parts.ts";

/**
 * Several sequences as one request (contract, "Several answers"): every part is sent at once, each with workers, room or hand-off and
 * retries of its own, and their answers become one.
 *
 * Resolves when the status may be committed, which is when every part's may be (buffered: when all are whole). Until then the first part
 * that fails for good fails the whole, with its own status, and the other parts are closed in the same tick; after it with one frame
 * (`MergedSource`). A part that is closed because of another is like one whose client has left: neutral for its workers, and a hand-off
 * it holds is released.
 *
 * @param call the whole request; `call.stop` reaches the parts
 * @param generate the walk of one part, as for a request of its own
 */
export async function fanOut(
  call: Call,
  { parts, samples }: Parts,
  clock: Clock,
  generate: (part: Call) => Promise<Answer>,
): Promise<Answer> {
  const calls = parts.map((part) => call.part(part.request, choiceOf(call.choice, part)));
  let merged: MergedSource | undefined;
  const offStop = call.onStop((why) => {
    if (merged === undefined) stopAll(calls, why);
    else merged.stop(why);
  });
  try {
    const answers = await allOrFirstFailure(calls, generate);
    // Between the last part's commit and here.
    const late = calls.find(({ outcome }) => outcome instanceof Failure);
    if (late !== undefined) throw late.outcome;
    const { record } = call;
    record.committedAt = clock.now();
    record.status = 200;
    // A part that was tried again may have gone another way; the whole went the way of a split.
    record.path = "disaggregated";
    if (calls.every(({ prefillOnly }) => prefillOnly)) call.answeredByPrefill();
    const { headers } = answers[0]!;
    if (answers.every(isBuffered)) {
      const bodies = answers.map(({ body }) => body);
      countTokens(call, bodies, samples);
      offStop();
      const body = mergeBuffered(call.request.api, bodies, samples);
      return { kind: "buffered", body, headers };
    }
    merged = new MergedSource({
      api: call.request.api,
      parts: calls.map((part, i): MergedPart => ({ call: part, source: sourceOf(part, answers[i]!) })),
      samples,
      ended({ failure, bytes, blocks, usages }) {
        offStop();
        countTokens(call, usages, samples);
        record.errorFrame = failure instanceof Failure;
        record.bytesOut += bytes;
        record.chunks = blocks;
        call.done(failure);
      },
    });
    // Between the parts' commits and here nobody has passed it on.
    if (call.stopped !== undefined) merged.stop(call.stopped);
    return { kind: "stream", source: merged, headers };
  } catch (error) {
    offStop();
    stopAll(calls, new ClientGone());
    throw call.stopped ?? error;
  }
}

/**
 * Starts all parts in one tick. Rejects with the first failure, after the others have been stopped. A stream that fails between its own
 * commit and that of the last part counts too: nothing has been promised to the client yet.
 */
function allOrFirstFailure(calls: readonly Call[], generate: (part: Call) => Promise<Answer>): Promise<Answer[]> {
  return new Promise((resolve, reject) => {
    const answers: Answer[] = new Array(calls.length);
    let missing = calls.length;
    const fail = (error: unknown) => {
      if (missing === 0) return;
      missing = 0;
      stopAll(calls, new ClientGone());
      reject(error);
    };
    calls.forEach((call, i) => {
      call.onDone(() => {
        if (call.outcome !== undefined) fail(call.outcome);
      });
      generate(call).then((answer) => {
        answers[i] = answer;
        if (--missing === 0) resolve(answers);
      }, fail);
    });
  });
}

function stopAll(calls: readonly Call[], why: ClientGone | Failure): void {
  for (const call of calls) call.stop(why);
}

function isBuffered(answer: Answer): answer is Extract<Answer, { kind: "buffered" }> {
  return answer.kind === "buffered";
}

function sourceOf(call: Call, answer: Answer): ClientSource {
  if (answer.kind === "stream") return answer.source;
  if (answer.kind === "text-stream") return new TextSource(call, answer.text);
  throw notAStream();
}

/** A part that prefill has answered alone: a whole stream that is known already. */
class TextSource implements ClientSource {
  readonly #call: Call;
  #text: string | undefined;

  constructor(call: Call, text: string) {
    this.#call = call;
    this.#text = text;
  }

  next(): Promise<Uint8Array | undefined> {
    const text = this.#text;
    this.#text = undefined;
    if (text === undefined) this.#call.done(undefined);
    return Promise.resolve(text === undefined ? undefined : new TextEncoder().encode(text));
  }
}

/** A part with a prompt of its own is placed by that prompt; the samples of one prompt are wanted where it is cached. */
function choiceOf(whole: ChoiceInput, { prompt }: Part): ChoiceInput {
  if (prompt === undefined) return whole;
  return { tokens: prompt.length / 4, prompt: () => prompt, session: () => whole.session() };
}

/** The record is shared by all parts, each of which has written its own counts into it: what they make together. */
function countTokens({ record, request }: Call, texts: readonly string[], samples: number): void {
  let prompt = 0;
  let cached = 0;
  let completion = 0;
  texts.forEach((text, part) => {
    record.promptTokens = 0;
    record.cachedTokens = 0;
    record.completionTokens = 0;
    usageOf(record, text, request.api);
    completion += record.completionTokens;
    if (part % samples > 0) return;
    prompt += record.promptTokens;
    cached += record.cachedTokens;
  });
  record.promptTokens = prompt;
  record.cachedTokens = cached;
  record.completionTokens = completion;
}
