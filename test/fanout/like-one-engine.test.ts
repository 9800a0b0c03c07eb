import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { respond } from "../../src/simulator/play-response.ts";
import { eventsOf, type Json, type SplitEngine, stand } from "./fleet-of-simulators.ts";

/** What two answers to the same question may differ in. Cached tokens of `/generate` are told per part. */
function comparable(value: Json): Json {
  const { id, created, ...rest } = value;
  if (rest.meta_info !== undefined) {
    const { id: own, cached_tokens, ...meta } = rest.meta_info;
    rest.meta_info = meta;
  }
  if (Array.isArray(rest.choices)) rest.choices = rest.choices.map(withoutCallIds);
  return rest;
}

/** The simulated engine makes a tool call's id from the index of its choice. */
function withoutCallIds(choice: Json): Json {
  return JSON.parse(JSON.stringify(choice), (key, value) => (key === "id" ? undefined : value));
}

interface Question {
  path: string;
  body: Record<string, unknown>;
  sequences: number;
}

const words = fc.stringMatching(/^[a-z ]{1,20}$/);
const seeds = fc.oneof(fc.integer(), fc.constant(undefined));

function chats(): fc.Arbitrary<Question> {
  return fc
    .record({
      n: fc.integer({ min: 2, max: 5 }),
      seed: fc.integer(),
      word: words,
      logprobs: fc.boolean(),
      tool: fc.boolean(),
    })
    .map(({ n, seed, word, logprobs, tool }) => ({
      path: "/v1/chat/completions",
      sequences: n,
      body: {
        messages: [{ role: "user", content: tool ? `${word} [sim:tool]` : word }],
        n,
        seed,
        ...(logprobs ? { logprobs: true, top_logprobs: 1 } : {}),
        ...(tool ? { tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }] } : {}),
        max_tokens: 9,
      },
    }));
}

function completions(): fc.Arbitrary<Question> {
  const prompts = fc.oneof(
    fc.array(words, { minLength: 1, maxLength: 3 }),
    fc.array(fc.array(fc.nat(60_000), { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 3 }),
    words,
  );
  return fc.record({ prompt: prompts, n: fc.integer({ min: 1, max: 2 }), seed: seeds }).map(({ prompt, n, seed }) => ({
    path: "/v1/completions",
    sequences: n * (Array.isArray(prompt) ? prompt.length : 1),
    // Without a seed the samples of one prompt would be alike: each part is sample 0 of its own request.
    body: { prompt, n, ...(seed === undefined && n === 1 ? {} : { seed: seed ?? 7 }), max_tokens: 9, x_new: 1 },
  }));
}

function generates(): fc.Arbitrary<Question> {
  return fc
    .record({
      text: fc.array(words, { minLength: 1, maxLength: 3 }),
      n: fc.integer({ min: 1, max: 2 }),
      seed: fc.integer(),
    })
    .map(({ text, n, seed }) => ({
      path: "/generate",
      sequences: n * text.length,
      body: { text, sampling_params: { n, sampling_seed: seed, max_new_tokens: 9 }, return_logprob: n === 1 },
    }));
}

const rows: [SplitEngine, string, fc.Arbitrary<Question>][] = [
  ["sglang", "chat", chats()],
  ["sglang", "completions", completions()],
  ["sglang", "/generate", generates()],
  ["vllm", "chat", chats()],
  ["vllm", "completions", completions()],
  ["trtllm", "completions", completions()],
];

describe("several answers are what one engine would have given", () => {
  test.each(rows)("%s, %s, buffered", async (engine, _, questions) => {
    await fc.assert(
      fc.asyncProperty(questions, async ({ path, body, sequences }) => {
        const { post, aggregated, decode } = stand(engine);
        const asked = { model: "demo-model", ...body };
        const answer = await post(path, asked);
        expect(answer.status).toBe(200);
        expect(answer.headers.get("x-router-path")).toBe("disaggregated");
        const ours = (await answer.json()) as Json;
        const theirs = (await (await ask(aggregated, path, asked)).json()) as Json;
        if (Array.isArray(theirs)) expect(ours.map(comparable)).toEqual(theirs.map(comparable));
        else expect(comparable(ours)).toEqual(comparable(theirs));
        expect(decode.log).toHaveLength(sequences);
      }),
      { numRuns: 12 },
    );
  });

  test.each(rows)("%s, %s, streamed", async (engine, _, questions) => {
    await fc.assert(
      fc.asyncProperty(questions, fc.boolean(), async ({ path, body }, includeUsage) => {
        const { post, aggregated } = stand(engine);
        const asked = {
          model: "demo-model",
          ...body,
          stream: true,
          ...(includeUsage && path !== "/generate" ? { stream_options: { include_usage: true } } : {}),
        };
        const ours = eventsOf(await (await post(path, asked)).text());
        const theirs = eventsOf(await (await ask(aggregated, path, asked)).text());
        expect(ours.filter((event) => event === "[DONE]")).toEqual(["[DONE]"]);
        expect(ours.pop()).toBe("[DONE]");
        theirs.pop();
        const read = ours.map((event) => JSON.parse(event) as Json);
        if (path !== "/generate") expect(new Set(read.map(({ id, created }) => `${id} ${created}`)).size).toBe(1);
        expect(byChoice(read)).toEqual(byChoice(theirs.map((event) => JSON.parse(event) as Json)));
      }),
      { numRuns: 12 },
    );
  });

  test("an alias stays the name in the answer", async () => {
    const { post } = stand("vllm");
    const asked = { model: "alias", prompt: ["a", "b"], max_tokens: 3 };
    expect(((await (await post("/v1/completions", asked)).json()) as Json).model).toBe("alias");
    const events = eventsOf(await (await post("/v1/completions", { ...asked, stream: true })).text());
    events.pop();
    expect(new Set(events.map((event) => JSON.parse(event).model))).toEqual(new Set(["alias"]));
  });

  test("an answer that prefill has finished alone is merged like the others", async () => {
    const { post, decode } = stand("trtllm");
    const asked = { model: "demo-model", prompt: ["a", "b"], max_tokens: 1 };
    const whole = (await (await post("/v1/completions", asked)).json()) as Json;
    expect(whole.choices.map((choice: Json) => choice.index)).toEqual([0, 1]);
    const events = eventsOf(await (await post("/v1/completions", { ...asked, stream: true })).text());
    expect(events.filter((event) => event === "[DONE]")).toHaveLength(1);
    const ends = events
      .slice(0, -1)
      .flatMap((event) => JSON.parse(event).choices.filter((one: Json) => one.finish_reason));
    expect(ends.map(({ index }: Json) => index).sort()).toEqual([0, 1]);
    expect(decode.log).toHaveLength(0);
  });
});

/** Streams of several choices may be woven in any order; each choice has its own. */
function byChoice(events: readonly Json[]): Record<string, Json[]> {
  const lists: Record<string, Json[]> = {};
  for (const event of events) {
    const key = String(event.index ?? event.choices?.[0]?.index ?? "usage");
    lists[key] ??= [];
    lists[key].push(comparable(event));
  }
  return lists;
}

function ask(engine: Parameters<typeof respond>[0], path: string, body: unknown): Promise<Response> {
  return respond(engine)(new Request(`http://w.test${path}`, { method: "POST", body: JSON.stringify(body) }));
}
