import type { Question } from "./questions.ts";

/** JSON of an engine, walked by path. */
// biome-ignore lint/suspicious/noExplicitAny: the tests vouch for its shape
type Json = any;

export interface Gist {
  usage: unknown;
  [member: string]: unknown;
}

/** What an answer says, however it came: streamed or whole, in few pieces or many. Without ids and times. */
export function gistOf(api: Question["api"], text: string, stream: boolean): Gist {
  if (!stream) return wholeGist(api, JSON.parse(text));
  const events = text
    .split("\n\n")
    .map((event) => /^data: (.*)$/m.exec(event)?.[1])
    .filter((data) => data !== undefined);
  if (api === "responses") return wholeGist(api, JSON.parse(events.at(-1)!).response);
  if (api === "messages") return messageGist(events.map((data) => JSON.parse(data)));
  if (events.pop() !== "[DONE]") throw new Error(`The stream has no end mark:\n${text.slice(-500)}`);
  return choicesGist(events.map((data) => JSON.parse(data)));
}

function wholeGist(api: Question["api"], answer: Json): Gist {
  if (answer.error) throw new Error(JSON.stringify(answer.error));
  if (api === "responses") {
    const { model, status, usage, incomplete_details } = answer;
    const output = answer.output.map((item: Json) => ({
      type: item.type,
      text: item.content?.map((part: Json) => part.text),
    }));
    return { model, status, incomplete_details, output, usage: usage ?? null };
  }
  if (api === "messages") {
    const { model, stop_reason, content, usage } = answer;
    return { model, stop_reason, text: content.map((block: Json) => block.text).join(""), usage: usage ?? null };
  }
  return {
    model: answer.model,
    choices: answer.choices.map((choice: Json) => ({
      text: choice.text ?? choice.message.content ?? "",
      calls: (choice.message?.tool_calls ?? []).map((call: Json) => call.function),
      finish: choice.finish_reason,
      stop: choice.stop_reason,
      logprobs: rounded(choice.logprobs?.content ?? choice.logprobs),
      token_ids: choice.token_ids ?? null,
      prompt_token_ids: choice.prompt_token_ids ?? null,
      prompt_logprobs: rounded(choice.prompt_logprobs ?? null),
    })),
    prompt_logprobs: rounded(answer.prompt_logprobs ?? null),
    usage: answer.usage ?? null,
  };
}

function choicesGist(events: Json[]): Gist {
  const choices: Json[] = [];
  let usage: Json = null;
  let model: Json;
  for (const event of events) {
    if (event.error) throw new Error(JSON.stringify(event.error));
    model = event.model;
    if (event.choices.length === 0) usage = event.usage;
    for (const { index, delta, text, logprobs, finish_reason, token_ids } of event.choices) {
      choices[index] ??= { text: "", calls: [], finish: null, logprobs: [], token_ids: [] };
      const choice = choices[index];
      choice.text += text ?? delta?.content ?? "";
      for (const call of delta?.tool_calls ?? []) {
        choice.calls[call.index] ??= { name: "", arguments: "" };
        choice.calls[call.index].name += call.function.name ?? "";
        choice.calls[call.index].arguments += call.function.arguments ?? "";
      }
      if (logprobs?.content) choice.logprobs.push(...logprobs.content);
      else if (logprobs)
        choice.logprobs.push(
          ...logprobs.tokens.map((token: string, i: number) => [
            token,
            logprobs.token_logprobs[i],
            logprobs.text_offset[i],
          ]),
        );
      choice.token_ids.push(...(token_ids ?? []));
      choice.finish ??= finish_reason;
    }
  }
  for (const choice of choices) choice.logprobs = rounded(choice.logprobs);
  return { model, choices, usage: usage ?? null };
}

function messageGist(events: Json[]): Gist {
  const end = events.find(({ type }) => type === "message_delta");
  if (events.at(-1)?.type !== "message_stop") throw new Error("The stream has no message_stop");
  const text = events.map(({ delta }) => delta?.text ?? "").join("");
  return { model: events[0].message.model, stop_reason: end.delta.stop_reason, text, usage: end.usage ?? null };
}

/** Another order of summing moves the last digits. */
function rounded(value: Json): Json {
  return JSON.parse(JSON.stringify(value ?? null), (_key, inner) =>
    typeof inner === "number" && !Number.isInteger(inner) ? Math.round(inner * 1000) / 1000 : inner,
  );
}
