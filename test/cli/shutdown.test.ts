import { afterEach, expect, test } from "bun:test";
import { connect } from "node:net";
import { deadUrl, ScriptedEngine, type Wire } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";
import { ask, type RawAnswer, RawClient } from "../faults/raw-client.ts";
import { answerBody, answerEvents, contentEvent, requestBody } from "../faults/streams.ts";
import { RouterProcess } from "./router-process.ts";

/** Contract section 1 (exit codes), 4 (`shutting_down`); a real process with real signals. */

const STREAMS = 5;
/** Long enough that only a test that fails meets it. */
const LONG_GRACE_MS = 30_000;
const SHORT_GRACE_MS = 400;
/** Last writes, leaving, and what a busy machine adds. */
const SLACK_MS = 3_000;

const LONG_EVENT = contentEvent("chat", "a".repeat(10_000));

const cleanups: (() => Promise<unknown>)[] = [];

afterEach(async function cleanUp() {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Scene {
  router: RouterProcess;
  decode: ScriptedEngine;
  prefill: ScriptedEngine;
  /** Decode may go on after its first two answers. */
  goOn(): void;
}

interface SceneOptions {
  shutdownMs: number;
  timeouts?: Record<string, number>;
  /** Takes the place of a prefill worker that answers at once. */
  prefill?: (wire: Wire) => Promise<void>;
}

/** A router process over one SGLang pair whose decode stops in the middle of each answer until the test lets it go on. */
async function open({ shutdownMs, timeouts, prefill: playPrefill }: SceneOptions): Promise<Scene> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const decode = await ScriptedEngine.start(async function play(wire, { request }) {
    if (request.headers.has("x-say-nothing")) return await wire.silence();
    if (/"stream":\s*false/.test(request.body)) {
      await wire.until(promise);
      return await wire.json(200, answerBody("chat"));
    }
    await wire.head(200, "text/event-stream");
    if (request.headers.has("x-flood")) for (;;) await wire.chunk(LONG_EVENT);
    let answers = 0;
    for (const { role, bytes } of answerEvents("chat")) {
      if (role === "answer" && ++answers === 3) await wire.until(promise);
      await wire.chunk(bytes);
    }
    await wire.end();
  });
  const prefill = await ScriptedEngine.start(
    playPrefill ?? ((wire) => wire.json(200, prefillAnswer("sglang", "chat"))),
  );
  const router = await RouterProcess.start({
    models: [{ id: "m", pools: [{ name: "default", engine: "sglang", prefill: [prefill.url], decode: [decode.url] }] }],
    timeouts: { shutdownMs, ...timeouts },
    health: { intervalMs: 0 },
    log: { level: "error" },
  });
  cleanups.push(
    () => decode.close(),
    () => prefill.close(),
    () => router[Symbol.asyncDispose](),
  );
  return { router, decode, prefill, goOn: resolve };
}

function request({ router }: Scene, stream = true): RawClient {
  return new RawClient({ port: router.port, path: "/v1/chat/completions", body: requestBody("chat", stream) });
}

/** Streams that have had their first answers. */
async function startStreams(scene: Scene, count = STREAMS): Promise<RawClient[]> {
  const clients = Array.from({ length: count }, () => request(scene));
  await until(() => clients.every(({ text }) => text.includes("Grüße")));
  return clients;
}

async function until(met: () => boolean): Promise<void> {
  const end = performance.now() + 5_000;
  while (!met()) {
    if (performance.now() > end) throw new Error(`Never so: ${met}`);
    await Bun.sleep(5);
  }
}

/** A new connection after the signal: refused, or told why not. */
async function knock({ router }: Scene, path = "/v1/chat/completions"): Promise<RawAnswer | "refused"> {
  const answer = await ask({ port: router.port, path, body: requestBody("chat", true) });
  return answer.status === 0 ? "refused" : answer;
}

async function get({ router }: Scene, path: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${router.port}${path}`);
}

function refusalOf(answer: RawAnswer): unknown {
  return JSON.parse(answer.body.toString()).error.code;
}

const wholeStream = Buffer.concat(answerEvents("chat").map(({ bytes }) => bytes)).toString();

/** The events before the frame, and the frames. */
function framesOf(answer: RawAnswer): { good: string; frames: { error: { code: string; stage: string } }[] } {
  const events = answer.body.toString().split(/(?<=\n\n)/);
  const isFrame = (event: string) => event.startsWith('data: {"error"');
  return {
    good: events.filter((event) => !isFrame(event)).join(""),
    frames: events.filter(isFrame).map((event) => JSON.parse(event.slice("data: ".length))),
  };
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

test("grace long enough: running streams finish byte for byte, new requests are turned away, exit code 0", async () => {
  const scene = await open({ shutdownMs: LONG_GRACE_MS });
  const clients = await startStreams(scene);
  const buffered = request(scene, false);
  await until(() => scene.decode.exchanges.length === STREAMS + 1);
  scene.router.signal("SIGTERM");
  await Bun.sleep(100);

  const turnedAway = await knock(scene);
  if (turnedAway !== "refused") {
    expect(turnedAway.status).toBe(503);
    expect(refusalOf(turnedAway)).toBe("shutting_down");
    expect(turnedAway.headers.get("x-router-error-code")).toBe("shutting_down");
    expect(Number(turnedAway.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await get(scene, "/ready")).status).toBe(503);
    expect((await get(scene, "/health")).status).toBe(200);
  }
  expect(scene.router.running).toBe(true);

  scene.goOn();
  for (const client of clients) {
    const answer = await client.answer();
    expect([answer.status, answer.flaw]).toEqual([200, ""]);
    expect(answer.body.toString()).toBe(wholeStream);
  }
  expect((await buffered.answer()).body.toString()).toBe(answerBody("chat"));
  expect(await scene.router.exit(SLACK_MS)).toBe(0);
  expect(isGone(scene.router.pid)).toBe(true);
  expect(scene.decode.exchanges).toHaveLength(STREAMS + 1);
});

test("grace too short: each stream gets one error frame and a clean end, the engines' sockets are closed, exit code 0", async () => {
  const scene = await open({ shutdownMs: SHORT_GRACE_MS });
  const clients = await startStreams(scene);
  const buffered = request(scene, false);
  await until(() => scene.decode.exchanges.length === STREAMS + 1);
  const from = performance.now();
  scene.router.signal("SIGTERM");
  for (const client of clients) {
    const answer = await client.answer();
    expect([answer.status, answer.flaw, answer.whole]).toEqual([200, "", true]);
    const { good, frames } = framesOf(answer);
    expect(frames.map(({ error }) => [error.code, error.stage])).toEqual([["shutting_down", "router"]]);
    // Deltas received equal deltas sent, and no finish is invented.
    expect(wholeStream).toStartWith(good.replace("data: [DONE]\n\n", ""));
    expect(good).not.toContain('"finish_reason":"');
    expect(answer.body.toString()).toEndWith("\n\ndata: [DONE]\n\n");
  }
  // What has no status yet gets a real one.
  const refused = await buffered.answer();
  expect([refused.status, refusalOf(refused)]).toEqual([503, "shutting_down"]);
  expect(performance.now() - from).toBeGreaterThanOrEqual(SHORT_GRACE_MS - 50);
  expect(await scene.router.exit(SLACK_MS)).toBe(0);
  expect(performance.now() - from).toBeLessThan(SHORT_GRACE_MS + SLACK_MS);
  await until(() => scene.decode.connections + scene.prefill.connections === 0);
  expect(scene.decode.exchanges.every(({ over, gone }) => gone && !over)).toBe(true);
});

test("no grace at all (shutdownMs 0): the frame comes at once", async () => {
  const scene = await open({ shutdownMs: 0 });
  const [client] = await startStreams(scene, 1);
  const from = performance.now();
  scene.router.signal("SIGTERM");
  const answer = await client!.answer();
  expect(answer.flaw).toBe("");
  expect(framesOf(answer).frames.map(({ error }) => error.code)).toEqual(["shutting_down"]);
  expect(performance.now() - from).toBeLessThan(1_000);
  expect(await scene.router.exit(SLACK_MS)).toBe(0);
});

test("a stream of keep-alives that has no answer yet ends with the frame too", async () => {
  const scene = await open({ shutdownMs: SHORT_GRACE_MS, timeouts: { keepAliveMs: 50 } });
  const client = new RawClient({
    port: scene.router.port,
    path: "/v1/chat/completions",
    body: requestBody("chat", true),
    headers: { "x-say-nothing": "1" },
  });
  await until(() => client.text.includes(": keep-alive"));
  scene.router.signal("SIGTERM");
  const answer = await client.answer();
  expect([answer.status, answer.flaw]).toEqual([200, ""]);
  expect(framesOf(answer).frames.map(({ error }) => error.code)).toEqual(["shutting_down"]);
  expect(await scene.router.exit(SLACK_MS)).toBe(0);
});

test("a prefill tail may finish within the grace although its response is over", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const scene = await open({
    shutdownMs: LONG_GRACE_MS,
    timeouts: { settleMs: 20, tailMs: LONG_GRACE_MS },
    async prefill(wire) {
      await wire.until(promise);
      await wire.json(200, prefillAnswer("sglang", "chat"));
    },
  });
  scene.goOn();
  const answer = await request(scene).answer();
  expect(answer.body.toString()).toBe(wholeStream);
  scene.router.signal("SIGTERM");
  await Bun.sleep(300);
  expect(scene.router.running).toBe(true);
  expect(scene.prefill.open).toBe(1);
  resolve();
  expect(await scene.router.exit(SLACK_MS)).toBe(0);
  expect(scene.prefill.exchanges.map(({ over }) => over)).toEqual([true]);
});

test("clients that sit on an idle connection do not hold the process", async () => {
  const scene = await open({ shutdownMs: LONG_GRACE_MS });
  const idle = connect({ port: scene.router.port, host: "127.0.0.1" });
  cleanups.push(async () => idle.destroy());
  idle.on("error", () => {});
  await new Promise((resolve) => idle.once("connect", resolve));
  scene.router.signal("SIGTERM");
  expect(await scene.router.exit(SLACK_MS)).toBe(0);
});

test("a client that does not read does not hold the process beyond the grace", async () => {
  const scene = await open({ shutdownMs: SHORT_GRACE_MS });
  const client = new RawClient({
    port: scene.router.port,
    path: "/v1/chat/completions",
    body: requestBody("chat", true),
    headers: { "x-flood": "1" },
  });
  await client.until(1);
  client.socket.pause();
  cleanups.push(async () => client.hangUp());
  // Every buffer on the way is full: decode itself cannot go on.
  const written = () => scene.decode.exchanges[0]!.written;
  for (let before = -1; before !== written(); await Bun.sleep(100)) before = written();
  scene.router.signal("SIGTERM");
  expect(await scene.router.exit(SHORT_GRACE_MS + SLACK_MS)).toBe(0);
  await until(() => scene.decode.connections === 0);
});

test.each(["SIGTERM", "SIGINT"] as const)(
  "a second signal (%s) ends the process at once, streams or not",
  async (second) => {
    const scene = await open({ shutdownMs: LONG_GRACE_MS });
    const clients = await startStreams(scene, 2);
    scene.router.signal("SIGTERM");
    await Bun.sleep(200);
    expect(scene.router.running).toBe(true);
    const from = performance.now();
    scene.router.signal(second);
    expect(await scene.router.exit(SLACK_MS)).toBe(1);
    expect(performance.now() - from).toBeLessThan(1_000);
    expect(isGone(scene.router.pid)).toBe(true);
    for (const client of clients) client.hangUp();
    await until(() => scene.decode.connections + scene.prefill.connections === 0);
  },
);

test("SIGINT, as Ctrl-C sends it, shuts down as SIGTERM does", async () => {
  const scene = await open({ shutdownMs: LONG_GRACE_MS });
  const [client] = await startStreams(scene, 1);
  scene.router.signal("SIGINT");
  await Bun.sleep(50);
  scene.goOn();
  expect((await client!.answer()).body.toString()).toBe(wholeStream);
  expect(await scene.router.exit(SLACK_MS)).toBe(0);
});

test("with nothing running it leaves within a moment, even if no engine can be reached", async () => {
  const url = deadUrl;
  const router = await RouterProcess.start({
    models: [{ id: "m", pools: [{ name: "default", engine: "vllm", prefill: [url], decode: ["http://127.0.0.3:9"] }] }],
    log: { level: "error" },
  });
  cleanups.push(() => router[Symbol.asyncDispose]());
  router.signal("SIGTERM");
  expect(await router.exit(SLACK_MS)).toBe(0);
});
