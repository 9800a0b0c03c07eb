import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { RouterProcess } from "../cli/router-process.ts";
import { type Play, ScriptedEngine, type Wire } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";
import { answerBody, answerEvents } from "../faults/streams.ts";
import { rawRequest } from "./raw.ts";

/** As in the case this test is named after: user info, worker key, client key, key in a query, prompt. */
const SECRET = {
  userInfo: "SECRET1-userinfo",
  worker: "SECRET2-worker-key",
  client: "SECRET3-client-key",
  query: "SECRET4-query-key",
  prompt: "SECRET5-prompt",
  admin: "SECRET6-admin-key",
};
const HIDDEN = [SECRET.userInfo, SECRET.worker, SECRET.client, SECRET.query, SECRET.admin];
const MODES = ["sglang", "vllm", "trtllm", "aggregated"] as const;

/** What an engine that repeats all it was told can do with it. `said`: its headers and its body, in one line. */
const FAILURES: Readonly<Record<string, (wire: Wire, said: string) => Promise<void>>> = {
  "400": (wire, said) => wire.json(400, error(said)),
  "401": (wire, said) => wire.json(401, `{"detail":${JSON.stringify(said)}}`),
  "429": (wire, said) =>
    wire.json(
      429,
      error(said),
      `retry-after: 1\r\nx-ratelimit-key: ${headerText(said)}\r\nx-echo: ${headerText(said)}\r\n`,
    ),
  "500-flat": (wire, said) => wire.json(500, `{"object":"error","message":${JSON.stringify(said)},"code":500}`),
  "500-text": async (wire, said) => {
    await wire.head(500, "text/html");
    await wire.chunk(said);
    await wire.end();
  },
  "503": (wire, said) => wire.json(503, error(said)),
  "200-error": (wire, said) => wire.json(200, error(said)),
  "200-abort": (wire, said) =>
    wire.json(
      200,
      `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":{"type":"abort","message":${JSON.stringify(said)}}}]}`,
    ),
  "200-garbage": (wire, said) => wire.json(200, `<html>${said}`),
  "type-and-code": (wire, said) =>
    wire.json(422, `{"error":{"message":"m","type":${JSON.stringify(said)},"code":${JSON.stringify(said)}}}`),
  "stream-error": (wire, said) => midStream(wire, `data: ${error(said)}\n\ndata: [DONE]\n\n`),
  "stream-flat-error": (wire, said) =>
    midStream(wire, `data: {"object":"error","message":${JSON.stringify(said)},"code":500}\n\ndata: [DONE]\n\n`),
  "stream-abort": (wire, said) =>
    midStream(
      wire,
      `data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort","stop_reason":${JSON.stringify(said)}}]}\n\ndata: [DONE]\n\n`,
    ),
  "stream-named-error": (wire, said) => midStream(wire, `event: error\ndata: ${error(said)}\n\n`),
  "stream-first-error": async (wire, said) => {
    await wire.head(200, "text/event-stream");
    await wire.chunk(`data: ${error(said)}\n\ndata: [DONE]\n\n`);
    await wire.end();
  },
  "stream-cut": (wire, said) => midStream(wire, `data: {"error":{"message":${JSON.stringify(said).slice(0, -1)}`, true),
  reset: (wire) => wire.rst(),
  "handoff-that-talks": (wire, said) =>
    wire.json(
      200,
      `{"choices":[{"index":0,"finish_reason":"length"}],"kv_transfer_params":{"do_remote_prefill":true,"said":${JSON.stringify(said)}}}`,
    ),
};

async function midStream(wire: Wire, last: string, cut = false): Promise<void> {
  await wire.head(200, "text/event-stream");
  for (const { bytes } of answerEvents("chat").slice(0, 3)) await wire.chunk(bytes);
  await wire.pause(20);
  await wire.chunk(last);
  if (cut) await wire.fin();
  else await wire.end();
}

function error(message: string): string {
  return JSON.stringify({ error: { message, type: "boom", param: null, code: 500 } });
}

function headerText(said: string): string {
  return said.replaceAll(/[^\x20-\x7e]/g, " ");
}

/** Repeats every header but its own address, which is its to tell, and the body. */
function echo(role: "prefill" | "decode", mode: (typeof MODES)[number]): Play {
  return async function play(wire, { request }) {
    const headers = [...request.headers].filter(([name]) => name !== "host");
    const said = `${headers.map(([name, value]) => `${name}: ${value}`).join("; ")} key=${SECRET.worker} target ${request.target} body ${request.body}`;
    const wanted = request.headers.get(`x-fail-${role}`);
    const failure = wanted === null ? undefined : FAILURES[wanted];
    if (failure !== undefined) return failure(wire, said);
    if (role === "prefill") {
      // Late, so that SGLang's decode is under way when a failure comes.
      return wire.json(200, prefillAnswer(mode, "chat"));
    }
    if (!request.body.includes('"stream":true')) return wire.json(200, answerBody("chat"));
    await wire.head(200, "text/event-stream");
    for (const { bytes } of answerEvents("chat")) {
      await wire.pause(10);
      await wire.chunk(bytes);
    }
    await wire.end();
  };
}

describe("no secret leaves by any way", () => {
  const engines: ScriptedEngine[] = [];
  let router: RouterProcess;
  let bodies = "";
  let masked = 0;
  let asked = 0;

  beforeAll(async () => {
    const env = { SEC_WORKER: SECRET.worker, SEC_CLIENT: SECRET.client, SEC_ADMIN: SECRET.admin };
    const models = [];
    for (const mode of MODES) {
      const prefill = await ScriptedEngine.start(echo("prefill", mode));
      const decode = await ScriptedEngine.start(echo("decode", mode));
      engines.push(prefill, decode);
      const worker = (url: string) => [{ url, apiKeyEnv: "SEC_WORKER" }];
      const pool =
        mode === "aggregated"
          ? { engine: "openai", workers: worker(decode.url) }
          : { engine: mode, prefill: worker(prefill.url), decode: worker(decode.url) };
      models.push({ id: mode, pools: [pool] });
    }
    router = await RouterProcess.start(
      {
        models,
        auth: { clientKeys: [{ name: "team", keyEnv: "SEC_CLIENT" }], adminKeyEnv: "SEC_ADMIN" },
        breaker: { enabled: false },
        retries: { maxRetries: 1, backoffMs: 1 },
        health: { intervalMs: 0 },
        timeouts: { prefillMs: 2_000, firstTokenMs: 2_000, totalMs: 2_000 },
        log: { level: "debug" },
      },
      env,
    );
  });

  afterAll(async () => {
    await router[Symbol.asyncDispose]();
    await Promise.all(engines.map((engine) => engine.close()));
  });

  async function ask(path: string, init: RequestInit & { headers: Record<string, string> }): Promise<number> {
    const response = await fetch(`http://127.0.0.1:${router.port}${path}?api_key=${SECRET.query}`, init);
    bodies += `${[...response.headers].join("\n")}\n${await response.text()}\n`;
    asked++;
    return response.status;
  }

  async function chat(model: string, stream: boolean, headers: Record<string, string>): Promise<number> {
    const auth = { authorization: `Bearer ${SECRET.client}`, "content-type": "application/json" };
    const body = JSON.stringify({ model, stream, messages: [{ role: "user", content: SECRET.prompt }] });
    return ask("/v1/chat/completions", { method: "POST", headers: { ...auth, ...headers }, body });
  }

  function expectHidden(): void {
    masked += bodies.split("***").length - 1;
    for (const secret of HIDDEN) {
      for (const [where, text] of [
        ["log", router.output],
        ["bodies and headers", bodies],
      ] as const) {
        const at = text.indexOf(secret);
        expect(at < 0 ? "" : `${where}: …${text.slice(Math.max(0, at - 300), at + 100)}`).toBe("");
      }
    }
    expect(router.output).not.toContain(SECRET.prompt);
    bodies = "";
  }

  test.each(MODES)(
    "when an engine repeats what it was told in every kind of failure: %s",
    async (mode) => {
      for (const name of Object.keys(FAILURES)) {
        for (const stream of [true, false]) {
          for (const leg of mode === "aggregated" ? ["decode"] : ["prefill", "decode"]) {
            // Decode's successful answer is passed on as it is, whatever it says.
            if (leg === "decode" && name.startsWith("handoff")) continue;
            await chat(mode, stream, { [`x-fail-${leg}`]: name });
          }
        }
      }
      expectHidden();
    },
    30_000,
  );

  test("when a request is refused, whatever is wrong with it", async () => {
    const json = { "content-type": "application/json" };
    const known = { ...json, authorization: `Bearer ${SECRET.client}` };
    const requests: [string, Record<string, string>, string, number][] = [
      ["/v1/chat/completions", { ...json, authorization: `Bearer ${SECRET.admin}` }, "{}", 401],
      ["/v1/chat/completions", { ...json, "x-api-key": `${SECRET.worker}` }, "{}", 401],
      ["/v1/chat/completions", known, `{"model":"sglang","messages":"${SECRET.prompt}`, 400],
      ["/v1/chat/completions", known, `{"model":"nobody","messages":["${SECRET.prompt}"]}`, 404],
      ["/v1/chat/completions", { ...known, "content-type": "text/plain" }, SECRET.prompt, 415],
      ["/workers", known, JSON.stringify({ url: `http://u:${SECRET.userInfo}@h:1` }), 403],
      [
        "/workers",
        { ...json, authorization: `Bearer ${SECRET.admin}` },
        `{"url":"http://u:${SECRET.userInfo}@h:1"}`,
        400,
      ],
      [
        "/workers",
        { ...json, authorization: `Bearer ${SECRET.admin}` },
        `{"url":"http://h:1","api_key":" ${SECRET.query}"}`,
        400,
      ],
      [`/nowhere/${SECRET.client}`, known, "{}", 404],
      [`/workers/${SECRET.query}`, { authorization: `Bearer ${SECRET.client}` }, "", 403],
    ];
    for (const [path, headers, body, status] of requests) {
      expect({ path, status: await ask(path, { method: "POST", headers, body }) }).toEqual({ path, status });
    }
    expectHidden();
  });

  test("when the request itself is broken on the wire", async () => {
    for (const bytes of [
      `GET /health?api_key=${SECRET.query} HTTP/9.9\r\n\r\n`,
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${SECRET.client}\r\ncontent-length: x\r\n\r\n`,
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${SECRET.client}\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n{"${SECRET.prompt}`,
    ]) {
      bodies += (await rawRequest(router.port, bytes, 300)).text;
    }
    expectHidden();
  });

  test("nor in the metrics, the listings, and the log of the end", async () => {
    for (const path of ["/metrics", "/ready", "/health", "/v1/models", "/openapi.json"]) {
      await ask(path, { headers: { authorization: `Bearer ${SECRET.client}` } });
    }
    await ask("/workers", { headers: { authorization: `Bearer ${SECRET.admin}` } });
    router.signal("SIGTERM");
    expect(await router.exit(10_000)).toBe(0);
    expectHidden();
    // That nothing was found is worth something only if there was something to look through.
    expect(asked).toBeGreaterThan(200);
    expect(router.output.split("\n").length).toBeGreaterThan(200);
    expect(masked).toBeGreaterThan(100);
    expect(router.output).toContain('"level":"warn"');
  });
});

test("a worker's URL with user info is refused at start, and the message does not repeat it", async () => {
  const url = `http://u:${SECRET.userInfo}@127.0.0.1:1`;
  const start = RouterProcess.start({ models: [{ id: "m", pools: [{ engine: "openai", workers: [url] }] }] });
  const message = await start.then(
    () => "started",
    (error: Error) => error.message,
  );
  expect(message).toContain("exit code 1");
  expect(message).toContain("models[0].pools[0].workers[0]");
  expect(message).toContain("user info");
  expect(message).not.toContain(SECRET.userInfo);
});
