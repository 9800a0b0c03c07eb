import { describe, expect, test } from "bun:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import { ScriptedEngine, type Wire } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";

/**
 * A tool call that is cut must not become a command (an agent would run it): the arguments arrive as they were sent, no finish is made up,
 * and the failure is what the client sees last.
 */

/** Their sum is a command without its end: whoever closes the brace deletes too much. */
const PIECES = ['{"cmd":', '"rm -rf', " /tmp/x"];
const REST = '/only-this"}';
/** As bad: what has come can be parsed, and is still not what the model wanted to say. */
const PARSEABLE = ['{"cmd":"rm -rf /tmp', '/x"}'];

interface Scene {
  base: string;
  decode: ScriptedEngine;
  close(): Promise<void>;
}

type Ending = (wire: Wire) => Promise<void>;

interface Ends {
  decodeEnds: Ending;
  prefillEnds?: Ending | undefined;
}

/** Decode says the pieces, then `decodeEnds`; prefill answers with `prefillEnds` once they are said. */
async function open(ends: Ends, pieces: readonly string[]): Promise<Scene> {
  const { decodeEnds, prefillEnds } = ends;
  const said = Promise.withResolvers<void>();
  const decode = await ScriptedEngine.start(async function play(wire) {
    await wire.head(200, "text/event-stream");
    await wire.chunk(chunk({ role: "assistant", content: null }));
    for (const [at, piece] of pieces.entries()) await wire.chunk(callDelta(piece, at === 0));
    said.resolve();
    await decodeEnds(wire);
  });
  const prefill = await ScriptedEngine.start(async function play(wire) {
    if (prefillEnds === undefined) return await wire.json(200, prefillAnswer("sglang", "chat"));
    await wire.until(said.promise);
    await wire.pause(40);
    await prefillEnds(wire);
  });
  const server = serveBun(
    createBunRouter({
      config: {
        listen: { port: 0 },
        models: [
          { id: "m", pools: [{ name: "default", engine: "sglang", prefill: [prefill.url], decode: [decode.url] }] },
        ],
        timeouts: { idleMs: 300, settleMs: 5_000 },
        retries: { maxRetries: 0 },
        health: { intervalMs: 0 },
      },
    }),
  );
  return {
    base: `http://127.0.0.1:${server.port}/v1`,
    decode,
    async close() {
      await server.stop(0);
      await Promise.all([decode.close(), prefill.close()]);
    },
  };
}

function chunk(delta: object, reason: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: reason }];
  return `data: ${JSON.stringify({ id: "c-1", object: "chat.completion.chunk", created: 1, model: "m", choices })}\n\n`;
}

function callDelta(piece: string, first: boolean): string {
  const named = first ? { id: "call-1", type: "function" } : {};
  return chunk({
    tool_calls: [{ index: 0, ...named, function: { ...(first ? { name: "shell" } : {}), arguments: piece } }],
  });
}

/** The AI SDK with a tool that only writes down what it was told to do. */
async function askAiSdk(base: string) {
  const executed: unknown[] = [];
  const shell = tool({
    inputSchema: jsonSchema<{ cmd: string }>({
      type: "object",
      properties: { cmd: { type: "string" } },
      required: ["cmd"],
    }),
    execute: async (input) => {
      executed.push(input);
      return "done";
    },
  });
  const provider = createOpenAICompatible({ apiKey: "k", name: "engine", baseURL: base });
  const { fullStream } = streamText({
    model: provider.chatModel("m"),
    prompt: "clean up",
    tools: { shell },
    stopWhen: stepCountIs(1),
    maxRetries: 0,
    onError: ignore,
  });
  const errors: unknown[] = [];
  let deltas = "";
  let finish: string | undefined;
  for await (const part of fullStream) {
    if (part.type === "tool-input-delta") deltas += part.delta;
    if (part.type === "error") errors.push(part.error);
    if (part.type === "finish") finish = part.finishReason;
  }
  return { executed, errors, deltas, finish };
}

async function askOpenAi(base: string) {
  const client = new OpenAI({ apiKey: "k", baseURL: base, maxRetries: 0, logLevel: "off" });
  const pieces: string[] = [];
  let finish: string | null = null;
  let raised: unknown;
  try {
    const stream = await client.chat.completions.create({
      model: "m",
      stream: true,
      messages: [{ role: "user", content: "clean up" }],
      tools: [{ type: "function", function: { name: "shell", parameters: { type: "object" } } }],
    });
    for await (const { choices } of stream) {
      const call = choices[0]?.delta.tool_calls?.[0];
      if (call?.function?.arguments !== undefined) pieces.push(call.function.arguments);
      finish = choices[0]?.finish_reason ?? finish;
    }
  } catch (error) {
    raised = error;
  }
  return { pieces, finish, raised };
}

/** The openai package's own accumulator, which many agents build on: it must reject, not hand out a message. */
async function askOpenAiForAll(base: string): Promise<"a message" | "rejected"> {
  const client = new OpenAI({ apiKey: "k", baseURL: base, maxRetries: 0, logLevel: "off" });
  return client.chat.completions
    .stream({ model: "m", messages: [{ role: "user", content: "clean up" }] })
    .finalChatCompletion()
    .then(
      () => "a message",
      () => "rejected",
    );
}

const silent: Ending = (wire) => wire.silence();
const LATE = '{"error":{"message":"KV transfer failed","type":"KVTransferError","code":500}}';

const FAILURES: readonly [string, Ending, Ending?][] = [
  ["prefill answers 500 late", silent, (wire) => wire.json(500, LATE)],
  ["prefill's connection is reset late", silent, (wire) => wire.rst()],
  [
    "prefill aborts inside a 200",
    silent,
    (wire) => wire.json(200, '{"choices":[{"index":0,"finish_reason":"abort"}]}'),
  ],
  ["decode is cut", (wire) => wire.fin()],
  ["decode is cut in the middle of the next piece", cutInside],
  ["decode is reset", (wire) => wire.rst()],
  ["decode ends cleanly without a finish", (wire) => wire.end()],
  ["decode falls silent", silent],
  ["decode aborts", (wire) => says(wire, chunk({}, "abort"), "data: [DONE]\n\n")],
  ["decode reports an error", (wire) => says(wire, `data: ${LATE}\n\n`, "data: [DONE]\n\n")],
  [
    "prefill fails while decode's finish is held",
    (wire) => says(wire, chunk({}, "tool_calls"), "data: [DONE]\n\n"),
    (wire) => wire.json(500, LATE),
  ],
];

async function cutInside(wire: Wire): Promise<void> {
  await wire.chunk(callDelta(REST, false).slice(0, -6));
  await wire.fin();
}

async function says(wire: Wire, ...events: string[]): Promise<void> {
  for (const event of events) await wire.chunk(event);
  await wire.end();
}

const failures = FAILURES.map(([what, decodeEnds, prefillEnds]) => [what, { decodeEnds, prefillEnds }] as const);

describe("no library runs half a command, and each learns of the failure", () => {
  test.each(failures)("%s", async (_what, ends) => {
    const seen = await withScene(ends, askAiSdk);
    expect(seen.executed).toEqual([]);
    expect(seen.errors.length).toBeGreaterThan(0);
    expect(seen.deltas).toBe(PIECES.join(""));
    expect(seen.finish).toBe("error");

    const { pieces, finish, raised } = await withScene(ends, askOpenAi);
    expect(raised).toBeInstanceOf(OpenAI.APIError);
    // Piece by piece, as decode said them.
    expect(pieces).toEqual(PIECES);
    expect(finish).toBeNull();

    expect(await withScene(ends, askOpenAiForAll)).toBe("rejected");
  });
});

test.each(failures)("arguments that could be parsed are not run either: %s", async (_what, ends) => {
  const seen = await withScene(ends, askAiSdk, PARSEABLE);
  expect([seen.executed, seen.deltas, seen.finish]).toEqual([[], PARSEABLE.join(""), "error"]);
});

test("the whole command, and nothing else, is run once when nothing fails", async () => {
  const decodeEnds: Ending = (wire) => says(wire, callDelta(REST, false), chunk({}, "tool_calls"), "data: [DONE]\n\n");
  const seen = await withScene({ decodeEnds }, askAiSdk);
  expect(seen.executed).toEqual([{ cmd: "rm -rf /tmp/x/only-this" }]);
  expect([seen.errors, seen.deltas, seen.finish]).toEqual([[], PIECES.join("") + REST, "tool-calls"]);
  expect(await withScene({ decodeEnds }, askOpenAiForAll)).toBe("a message");
});

async function withScene<T>(ends: Ends, ask: (base: string) => Promise<T>, pieces = PIECES): Promise<T> {
  const scene = await open(ends, pieces);
  try {
    return await ask(scene.base);
  } finally {
    await scene.close();
  }
}

function ignore(): void {}
