import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import type { RouterServer } from "../../src/runtime/server.ts";
import type { Api } from "../../src/sse/api.ts";
import { ScriptedEngine } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";
import { answerEvents, paths } from "../faults/streams.ts";
import { BROKEN, type Broken, TRICKY } from "./broken.ts";
import { aiSdkChat, LIBRARIES, type Library, openAiChat, wordsOf } from "./libraries.ts";

/**
 * The wire facts say what client libraries do with a broken stream; here the real libraries read, over real sockets, what the router
 * makes of each. A program must learn of every failure, and of nothing that is none.
 */

const WORDS = ["Grüße", ", ", "世界", " 👩‍🚀"];
const IDLE_MS = 250;

let decode: ScriptedEngine;
let prefill: ScriptedEngine;
let server: RouterServer;
/** Each request tells which row it is; its two legs meet here. */
const meetings = new Map<string, PromiseWithResolvers<void>>();

function rowOf(headers: Headers): Broken {
  return BROKEN[Number(headers.get("x-row"))]!;
}

function meeting(headers: Headers): PromiseWithResolvers<void> {
  const name = headers.get("x-meeting") ?? "";
  const known = meetings.get(name);
  if (known !== undefined) return known;
  const made = Promise.withResolvers<void>();
  meetings.set(name, made);
  return made;
}

beforeAll(async function start() {
  decode = await ScriptedEngine.start(async function play(wire, { request }) {
    const api = apiOf(request.target);
    const row = rowOf(request.headers);
    if (row.whole) return await row.play(wire, api);
    await wire.head(200, "text/event-stream");
    let texts = 0;
    for (const { role, bytes } of answerEvents(api)) {
      if (role === "answer" && ++texts > (api === "responses" ? 3 : 2)) break;
      await wire.chunk(bytes);
    }
    meeting(request.headers).resolve();
    await row.play(wire, api);
  });
  prefill = await ScriptedEngine.start(async function play(wire, { request }) {
    const row = rowOf(request.headers);
    if (row.prefill === undefined) return await wire.json(200, prefillAnswer("sglang", apiOf(request.target)));
    await wire.until(meeting(request.headers).promise);
    // What decode has said is on its way to the client.
    await wire.pause(40);
    await row.prefill(wire);
  });
  server = serveBun(
    createBunRouter({
      config: {
        listen: { port: 0 },
        models: [
          { id: "m", pools: [{ name: "default", engine: "sglang", prefill: [prefill.url], decode: [decode.url] }] },
        ],
        timeouts: { idleMs: IDLE_MS },
        retries: { maxRetries: 0 },
        breaker: { enabled: false },
        health: { intervalMs: 0 },
      },
    }),
  );
});

afterAll(async function stop() {
  await server.stop(0);
  await Promise.all([decode.close(), prefill.close()]);
});

function apiOf(target: string): Api {
  return (Object.keys(paths) as Api[]).find((api) => paths[api] === target)!;
}

function headersOf(row: Broken): Record<string, string> {
  return { "x-row": String(BROKEN.indexOf(row)), "x-meeting": crypto.randomUUID() };
}

function read(library: Library, row: Broken) {
  return library.read(`http://127.0.0.1:${server.port}`, headersOf(row));
}

const cases = BROKEN.flatMap((row) =>
  LIBRARIES.filter(({ api }) => row.apis.includes(api)).map((library) => ({ row, library })),
);
const named = (ends: Broken["ends"]) =>
  cases
    .filter(({ row }) => row.ends === ends)
    .map(({ row, library }) => [`${row.what} | ${library.name}, ${library.api}`, row, library] as const);

describe("a failure is raised, after everything that was sent before it", () => {
  test.each(named("raises"))("%s", async (_name, row, library) => {
    const { text, raised, finish } = await read(library, row);
    expect(raised).toBeDefined();
    if (row.says !== undefined) expect(wordsOf(raised)).toContain(row.says);
    expect(text).toBe(WORDS.slice(0, 2).join(""));
    // No reason for a finish that never was; the AI SDK's word for "it failed" is one of its own.
    expect([undefined, "error"]).toContain(finish);
  });
});

describe("what is no failure is not raised", () => {
  test.each(named("well"))("%s", async (_name, row, library) => {
    // This version of the library takes the member for an error, whoever sends it; the router passes bytes on as they are.
    if (row.bare?.aiSdk === "raises" && row.what.startsWith('"error": null') && library.name === "AI SDK") {
      const bare = await library.read(decode.url, headersOf(row));
      expect(await read(library, row)).toEqual(bare);
      return;
    }
    const { text, raised, finish } = await read(library, row);
    expect(raised).toBeUndefined();
    expect(text).toBe((row.what.includes("inside the text") ? TRICKY : WORDS).join(""));
    expect(["stop", "completed", "end_turn"]).toContain(finish!);
  });
});

describe("without a router, the libraries do this with the same streams", () => {
  const looked = BROKEN.filter(({ bare }) => bare !== undefined).flatMap((row) => [
    ...(row.bare?.openAi === undefined
      ? []
      : [[`${row.what} | openai: ${row.bare.openAi}`, row, openAiChat, row.bare.openAi] as const]),
    ...(row.bare?.aiSdk === undefined
      ? []
      : [[`${row.what} | AI SDK: ${row.bare.aiSdk}`, row, aiSdkChat, row.bare.aiSdk] as const]),
  ]);
  test.each(looked)("%s", async (_name, row, library, does) => {
    const { raised } = await library.read(decode.url, headersOf(row));
    expect(raised === undefined ? "silent" : "raises").toBe(does);
  });
});

test("afterwards nothing is left in hand", async () => {
  const { router } = server;
  const inHand = () =>
    router.active() +
    decode.open +
    prefill.open +
    router.services.fleet.workers().reduce((sum, { load }) => sum + load.requests, 0);
  // The longest that a leg may linger after a good answer is two seconds.
  for (let waited = 0; waited < 4_000 && inHand() > 0; waited += 20) await Bun.sleep(20);
  expect(inHand()).toBe(0);
});
