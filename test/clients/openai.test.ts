import { describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { chatText, eventsOf, json, makeEngine, post } from "../simulator/support.ts";
import { DIALECTS, type Dialect, type Pair, postChat, startPair, user } from "./pair.ts";

function clientOf({ base }: Pair): OpenAI {
  return new OpenAI({ apiKey: "client-key", baseURL: `${base}/v1`, maxRetries: 0 });
}

/** The same prompt on one engine that does it all: what every other way of serving has to give as well. */
async function expected(dialect: Dialect, content: string, more: object = {}): Promise<string> {
  const alone = makeEngine({ engine: dialect, role: "aggregated" });
  const answer = await json(
    post(alone, "/v1/chat/completions", { model: "demo-model", messages: user(content), ...more }),
  );
  return answer.choices[0].message.content;
}

describe.each([...DIALECTS])("%s", (dialect) => {
  test("raw HTTP: a streamed and a buffered chat have the text of one engine alone", async () => {
    await using pair = await startPair(dialect);
    const messages = user("What runs under the bridge?");
    const text = await expected(dialect, messages[0]!.content);

    const buffered = await postChat(pair.base, { messages });
    expect(buffered.status).toBe(200);
    expect(buffered.headers.get("x-router-path")).toBe("disaggregated");
    expect(buffered.headers.get("x-router-prefill")).toBe("p1");
    expect(buffered.headers.get("x-router-decode")).toBe("d1");
    expect(
      ((await buffered.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content,
    ).toBe(text);

    const streamed = await postChat(pair.base, { messages, stream: true });
    expect(streamed.headers.get("content-type")).toContain("text/event-stream");
    expect(streamed.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(streamed.headers.get("x-accel-buffering")).toBe("no");
    const events = await streamed.text();
    expect(chatText(events)).toBe(text);
    expect(eventsOf(events).filter((data) => data === "[DONE]")).toHaveLength(1);
    expect(events).toEndWith("data: [DONE]\n\n");
    await pair.idle();
  });

  test("the openai package: streamed, with usage, and buffered", async () => {
    await using pair = await startPair(dialect);
    const client = clientOf(pair);
    const messages = user("Who counts the birds?");
    const model = "demo-model";
    const whole = await client.chat.completions.create({ model, messages, seed: 7 });
    expect(whole.choices[0]!.message.content).toBe(await expected(dialect, messages[0]!.content, { seed: 7 }));
    const stream = client.chat.completions.stream({
      model,
      messages,
      seed: 7,
      stream_options: { include_usage: true },
    });
    const streamed = await stream.finalChatCompletion();
    expect(streamed.choices[0]!.message.content).toBe(whole.choices[0]!.message.content);
    expect(streamed.usage?.completion_tokens).toBe(whole.usage!.completion_tokens);
    expect(streamed.usage?.prompt_tokens).toBe(whole.usage!.prompt_tokens);
    await pair.idle();
  });

  test("an engine's refusal is an API error with its status and its words", async () => {
    await using pair = await startPair(dialect);
    const failing = clientOf(pair).chat.completions.create({
      model: "demo-model",
      messages: user("x"),
      temperature: -3,
    });
    const error = await failing.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(OpenAI.APIError);
    const { status, message } = error as InstanceType<typeof OpenAI.APIError>;
    expect({ status, said: message.includes("temperature") }).toEqual({ status: 400, said: true });
    await pair.idle();
  });

  test("two hundred requests at once: every client gets its own answer, and nothing stays in hand", async () => {
    await using pair = await startPair(dialect);
    const answers = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        const content = `Question number ${index} of two hundred`;
        const stream = index % 2 === 0;
        const response = await postChat(pair.base, { messages: user(content), stream, seed: index });
        const text = await response.text();
        const got = stream ? chatText(text) : JSON.parse(text).choices[0].message.content;
        return { status: response.status, got, content, seed: index };
      }),
    );
    for (const { status, got, content, seed } of answers) {
      expect(status).toBe(200);
      expect(got).toBe(await expected(dialect, content, { seed }));
    }
    // All different, or the comparison would not see a mix-up.
    expect(new Set(answers.map(({ got }) => got)).size).toBeGreaterThan(190);
    await pair.idle();
    expect(pair.prefill.stats.requests).toBe(200);
    expect(pair.decode.stats).toMatchObject({
      requests: 200,
      pulled: 200,
      aborts: 0,
      local: 0,
      reused: 0,
      poisoned: 0,
    });
  });

  test.each(["anytime", "deferred"] as const)(
    "clients that leave at any moment leave nothing behind (%s)",
    async (cancel) => {
      await using pair = await startPair(dialect, { itlMs: 5, answerTokens: 40, pool: { cancel } });
      await Promise.all(
        Array.from({ length: 40 }, async (_, index) => {
          const client = new AbortController();
          setTimeout(() => client.abort(), index * 3);
          const request = fetch(`${pair.base}/v1/chat/completions`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ model: "demo-model", messages: user(`q${index}`), stream: index % 3 !== 0 }),
            signal: client.signal,
          });
          await request.then((response) => response.text()).catch(() => undefined);
        }),
      );
      const after = await postChat(pair.base, { messages: user("Still there?") });
      expect(after.status).toBe(200);
      await after.text();
      // Torn down at once, a prefill may have granted blocks while its answer was still on the wire; only waiting for it (deferred) prevents that.
      await pair.idle(4_000, cancel === "anytime" ? "blocks" : undefined);
      expect(pair.inHand().blocks).toBeLessThanOrEqual(pair.prefill.stats.requests - pair.decode.stats.requests);
      expect(pair.decode.stats).toMatchObject({ reused: 0, failedReads: 0, mismatched: 0, local: 0, deaths: 0 });
    },
  );
});
