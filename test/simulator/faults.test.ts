import { expect, test } from "bun:test";
import { createFabric } from "../../src/simulator/fabric.ts";
import { parseFault } from "../../src/simulator/faults.ts";
import {
  chat,
  eventsOf,
  failureOf,
  get,
  json,
  ManualClock,
  makeEngine,
  makeTrio,
  post,
  rooms,
  settle,
  splice,
} from "./support.ts";

const path = "/v1/chat/completions";
const streaming = { ...chat, stream: true };

function faulty(fault: string, engine: "sglang" | "vllm" = "vllm") {
  return makeEngine({ engine, role: "aggregated", faults: [fault] });
}

async function brokenText(response: Response): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  async function readAll(): Promise<void> {
    for await (const bytes of response.body!) text += decoder.decode(bytes, { stream: true });
  }
  expect(await failureOf(readAll())).toMatchObject({ code: "ECONNRESET" });
  return text;
}

test("a fault is read as kind, argument, position and count; what cannot be read is named", () => {
  expect(parseFault("reset@120ms")).toMatchObject({ kind: "reset", atMs: 120, atEvent: undefined });
  expect(parseFault(" status:503*2 ")).toMatchObject({ kind: "status", argument: 503, times: 2 });
  expect(parseFault("cut@3")).toMatchObject({ kind: "cut", atEvent: 3 });
  for (const text of ["", "explode", "status:200", "reset@", "status:9999"])
    expect(() => parseFault(text)).toThrow(text);
});

test("status: the engine's own error body, while /health stays 200; 429 names a time to wait", async () => {
  const engine = faulty("status:500");
  expect((await post(engine, path, chat)).status).toBe(500);
  expect((await get(engine, "/health")).status).toBe(200);
  expect((await post(faulty("status:429"), path, chat)).headers.get("retry-after")).toBe("1");
});

test("health: /health fails while generation is fine", async () => {
  const engine = faulty("health:503");
  expect((await get(engine, "/health")).status).toBe(503);
  expect((await post(engine, path, chat)).status).toBe(200);
});

test("a counted fault strikes that many times, then the engine is well", async () => {
  const engine = faulty("status:503*2");
  const statuses = [];
  for (let at = 0; at < 3; at++) statuses.push((await post(engine, path, chat)).status);
  expect(statuses).toEqual([503, 503, 200]);
});

test("each leg obeys its own header, and x-sim-fault is for all", async () => {
  const { prefill, decode, aggregated } = makeTrio("vllm", createFabric());
  const headers = { "x-sim-prefill": "status:501", "x-sim-decode": "status:502", "x-sim-aggregated": "status:503" };
  const statuses = [prefill, decode, aggregated].map(
    async (engine) => (await post(engine, path, chat, { headers })).status,
  );
  expect(await Promise.all(statuses)).toEqual([501, 502, 503]);
  const bad = await post(prefill, path, chat, { headers: { "x-sim-fault": "explode" } });
  expect(bad.status).toBe(400);
});

test("reset before any answer, and after so many events", async () => {
  expect(await failureOf(post(faulty("reset"), path, chat))).toMatchObject({ code: "ECONNRESET" });
  const text = await brokenText(await post(faulty("reset@3"), path, streaming));
  expect(eventsOf(text)).toHaveLength(3);
});

test("cut ends in the middle of an event, fin between two", async () => {
  const cut = await brokenText(await post(faulty("cut@2"), path, streaming));
  expect(cut.endsWith("\n\n")).toBe(false);
  expect(cut.split("\n\n")).toHaveLength(3);
  const fin = await brokenText(await post(faulty("fin@2"), path, streaming));
  expect(fin.endsWith("\n\n")).toBe(true);
  const half = await brokenText(await post(faulty("cut"), path, chat));
  expect(() => JSON.parse(half)).toThrow();
});

test("hang and silence last until the client leaves", async () => {
  const leaving = new AbortController();
  const hanging = faulty("hang");
  const answer = post(hanging, path, chat, { signal: leaving.signal });
  answer.catch(() => {});
  await settle();
  expect(hanging.inFlight).toBe(1);
  leaving.abort();
  expect(await failureOf(answer)).toBeInstanceOf(Error);
  await settle();
  expect([hanging.inFlight, hanging.stats.aborts]).toEqual([0, 1]);

  const silent = faulty("silence@2");
  const reader = (await post(silent, path, streaming)).body!.getReader();
  await reader.read();
  await reader.read();
  const third = reader.read();
  let said = false;
  third.then(
    () => (said = true),
    () => {},
  );
  await settle();
  expect(said).toBe(false);
  await reader.cancel();
  await settle();
  expect([silent.inFlight, silent.stats.aborts]).toEqual([0, 1]);
});

test("a fault with a time strikes then, whatever the engine was doing", async () => {
  const clock = new ManualClock();
  const engine = makeEngine({
    engine: "vllm",
    role: "aggregated",
    clock,
    faults: ["reset@120ms"],
    timing: { itlMs: 50, prefillMsPerToken: 0 },
  });
  const text = brokenText(await post(engine, path, streaming));
  await clock.advance(119);
  expect(engine.inFlight).toBe(1);
  await clock.advance(1);
  expect(eventsOf(await text).length).toBeWithin(3, 6);
  const buffered = post(engine, path, chat);
  buffered.catch(() => {});
  await clock.advance(120);
  expect(await failureOf(buffered)).toMatchObject({ code: "ECONNRESET" });
});

test("a late prefill failure comes after the blocks have moved: decode is streaming already", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }), {
    timing: { itlMs: 50, transferMs: 1, prefillMsPerToken: 0 },
  });
  const body = JSON.stringify(chat);
  const prefilled = post(prefill, path, splice(body, rooms()), { headers: { "x-sim-prefill": "status:500@120ms" } });
  const decoded = post(decode, path, splice(JSON.stringify(streaming), rooms()));
  await clock.advance(100);
  const reader = (await decoded).body!.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toContain("assistant");
  await clock.advance(20);
  expect((await prefilled).status).toBe(500);
  await reader.cancel();
});

test("abort inside a 200: chat says it in finish_reason, /generate in an object with the status", async () => {
  const stream = eventsOf(await (await post(faulty("abort@1"), path, streaming)).text());
  expect(JSON.parse(stream.at(-2) ?? "").choices[0].finish_reason).toBe("abort");
  expect(stream.at(-1)).toBe("[DONE]");
  const { meta_info } = await json(post(faulty("abort:503", "sglang"), "/generate", { text: "a" }));
  expect(meta_info.finish_reason).toMatchObject({ type: "abort", status_code: 503, err_type: "InternalServerError" });
});

test("an aborting sglang prefill has moved nothing: its decode waits", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }));
  let answered = false;
  void post(decode, path, splice(JSON.stringify(chat), rooms())).then(() => (answered = true));
  const aborted = await json(
    post(prefill, path, splice(JSON.stringify(chat), rooms()), { headers: { "x-sim-prefill": "abort" } }),
  );
  expect(aborted.choices[0].finish_reason).toBe("abort");
  await clock.advance(200_000);
  expect(answered).toBe(false);
});

test("error frames: nested per engine, the old flat one, an error JSON in a 200, a silent end", async () => {
  const sglang = eventsOf(await (await post(faulty("error-frame:503@1", "sglang"), path, streaming)).text());
  expect(JSON.parse(sglang.at(-2) ?? "").error).toMatchObject({ object: "error", code: 503 });
  const flat = eventsOf(await (await post(faulty("flat-error@1", "sglang"), path, streaming)).text());
  expect(JSON.parse(flat.at(-2) ?? "")).toMatchObject({ object: "error" });
  const whole = await post(faulty("error-json"), path, streaming);
  expect([whole.status, whole.headers.get("content-type")]).toEqual([200, "application/json"]);
  expect(await json(whole)).toHaveProperty("error.code", 500);
  const unfinished = await (await post(faulty("no-finish"), path, streaming)).text();
  expect(unfinished).not.toMatch(/"finish_reason":"/);
  expect(unfinished).toEndWith("data: [DONE]\n\n");
  expect(await (await post(faulty("no-done"), path, streaming)).text()).not.toContain("[DONE]");
  const messages = await (await post(faulty("error-frame@1"), "/v1/messages", { ...streaming, max_tokens: 9 })).text();
  expect(messages).toContain('event: error\ndata: {"type":"error"');
});

test("faulty hand-offs: null, {}, without blocks", async () => {
  const body = { ...chat, max_tokens: 1, kv_transfer_params: { do_remote_decode: true } };
  const given = [];
  for (const fault of ["null-handoff", "empty-handoff", "bad-handoff"]) {
    const prefill = makeEngine({ engine: "vllm", role: "prefill", faults: [fault] });
    given.push((await json(post(prefill, path, body))).kv_transfer_params);
    expect(prefill.side?.heldGrants).toBe(0);
  }
  expect(given).toEqual([null, {}, expect.objectContaining({ remote_block_ids: [[]], remote_request_id: null })]);
});
