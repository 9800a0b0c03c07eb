import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { rawRequest } from "../security/raw.ts";
import { DONE, delta, handedOff, prefilled, role, stream, words } from "./answers.ts";
import { eventually, sleep } from "./client.ts";
import { Engines } from "./engines.ts";
import { ROOT, spawnRouter } from "./process.ts";
import { makeStage } from "./run.ts";
import { textOf } from "./scenarios/answers.ts";

const EXAMPLES = join(ROOT, "examples");

/** Each example does what it says, against engines; those of Workers and Node run where their runtime is (workerd-setup, package). */
describe("examples", () => {
  const engines = new Engines();
  // The functions' log goes to the console, as their platforms want it.
  const lines = spyOn(console, "log");
  beforeAll(async () => {
    lines.mockImplementation(() => {});
    await engines.start();
    process.env.PREFILL = engines.url("sg-p");
    process.env.DECODE = engines.url("sg-d");
  });
  afterAll(async () => {
    lines.mockRestore();
    delete process.env.PREFILL;
    delete process.env.DECODE;
    await engines.stop();
  });

  function chatRequest(tag: string, url: string): Request {
    const body = JSON.stringify({ model: "sg", stream: true, messages: [{ role: "user", content: tag }] });
    return new Request(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  }

  function lambdaEvent(body: string) {
    return {
      version: "2.0",
      rawPath: "/v1/chat/completions",
      rawQueryString: "",
      headers: { "content-type": "application/json", host: "fn", "content-length": String(body.length) },
      body,
      isBase64Encoded: false,
      requestContext: { domainName: "fn", http: { method: "POST", path: "/v1/chat/completions" } },
    };
  }

  function eventsOf(text: string): string[] {
    return text.split("\n\n").flatMap((event) => (event.startsWith("data: ") ? [event.slice(6)] : []));
  }

  test("none is longer than thirty lines", () => {
    const files = readdirSync(EXAMPLES, { recursive: true, encoding: "utf8" }).filter((name) =>
      /\.m?[tj]s$/.test(name),
    );
    expect(files.length).toBeGreaterThanOrEqual(7);
    for (const file of files) {
      const lines = readFileSync(join(EXAMPLES, file), "utf8").trimEnd().split("\n").length;
      expect([file, lines <= 30]).toEqual([file, true]);
    }
  });

  test("bun: serves on loopback alone, balancers of HTTP/1.0 too, drains on SIGTERM", async () => {
    const env = { PREFILL: engines.url("sg-p"), DECODE: engines.url("sg-d"), PORT: "0" };
    const server = await spawnRouter("bun", ["examples/bun/server.ts"], env);
    try {
      const elsewhere = fetch(`http://127.0.0.2:${server.port}/health`).then(({ status }) => status);
      expect(await elsewhere.catch(() => "nobody")).toBe("nobody");
      for (const [path, status] of [
        ["/health", 200],
        ["/none?x=//a/health", 404],
      ] as const) {
        const { text } = await rawRequest(server.port, `GET ${path} HTTP/1.0\r\n\r\n`);
        expect([path, text.slice(9, 12)]).toEqual([path, String(status)]);
      }
      const { ask } = makeStage("bun", engines, server.port, server.port);
      const sent = [role(), delta("one"), 300, delta(" two"), delta("", "stop"), DONE];
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": stream(sent) });
      await answer.saw("one");
      server.signal("SIGTERM");
      await answer.done();
      expect([textOf(answer.events), await server.exited]).toEqual(["one two", 0]);
    } finally {
      await server.stop();
    }
  });

  test("deno: deno serve takes the default export, on loopback alone by the command it names", async () => {
    const env = { PREFILL: engines.url("sg-p"), DECODE: engines.url("sg-d") };
    const said = /`deno (serve .+ examples\S+)`/.exec(readFileSync(join(EXAMPLES, "deno", "server.ts"), "utf8"))![1]!;
    const args = said.replace("serve ", "serve --no-prompt ").replace("--port 8000", "--port 0").split(" ");
    const server = await spawnRouter("deno", args, env);
    try {
      const elsewhere = fetch(`http://127.0.0.2:${server.port}/health`).then(({ status }) => status);
      expect(await elsewhere.catch(() => "nobody")).toBe("nobody");
      const { ask } = makeStage("deno", engines, server.port, server.port);
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": words("from ", "deno") });
      await answer.done();
      expect(textOf(answer.events)).toBe("from deno");
    } finally {
      await server.stop();
    }
  });

  test("the container's health check asks at the port that PORT names", async () => {
    const line = /^HEALTHCHECK .* CMD (\[.+\])$/m.exec(readFileSync(join(ROOT, "Dockerfile"), "utf8"))![1]!;
    const [, ...args] = JSON.parse(line) as string[];
    const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
    const codeAt = (port: number) =>
      Bun.spawn([process.execPath, ...args], { env: { ...process.env, PORT: String(port) }, stderr: "ignore" }).exited;
    expect([await codeAt(server.port!), await codeAt(9)]).toEqual([0, 1]);
    await server.stop(true);
  });

  test("embedded: by app.mount, beside a page of the app's own, with the router's own 404 and 405", async () => {
    const { appWith } = await import("../../examples/embedded-hono/app.ts");
    const app = appWith(engines.url("sg-p"), engines.url("sg-d"));
    expect(await (await app.request("/")).text()).toBe("somebody's own page");
    expect((await app.request("/llm/health")).status).toBe(200);
    const tag = engines.scenario({ "sg-p": prefilled(), "sg-d": words("hi") });
    const response = await app.fetch(chatRequest(tag, "http://app/llm/v1/chat/completions"));
    expect([response.status, textOf(eventsOf(await response.text()))]).toEqual([200, "hi"]);
    for (const [path, code] of [
      ["/llm/v1/nothing", "not_found"],
      ["/llm/v1/chat/completions", "method_not_allowed"],
    ]) {
      expect([path, (await app.request(path!)).headers.get("x-router-error-code")]).toEqual([path, code]);
    }
  });

  test("lambda: streams, and the handler returns only when the drain has ended", async () => {
    const meta: { statusCode?: number; headers?: Record<string, string> }[] = [];
    Object.assign(globalThis, {
      awslambda: {
        streamifyResponse: (handler: unknown) => handler,
        HttpResponseStream: {
          from(responseStream: unknown, head: (typeof meta)[number]) {
            meta.push(head);
            return responseStream;
          },
        },
      },
    });
    // A plain name, so that the example keeps the name of its package.
    const path = "../../examples/lambda/handler.mjs";
    const { handler } = (await import(path)) as {
      handler(event: unknown, out: unknown, context: unknown): Promise<void>;
    };
    const tag = engines.scenario({ "sg-p": prefilled(900), "sg-d": words("from ", "lambda") });
    const body = JSON.stringify({ model: "sg", stream: true, messages: [{ role: "user", content: tag }] });
    const out = new PassThrough();
    let text = "";
    let endedAt = 0;
    out.on("data", (bytes: Buffer) => {
      text += bytes;
      endedAt = performance.now();
    });
    await handler(lambdaEvent(body), out, {});
    const returnedAt = performance.now();
    expect([meta[0]?.statusCode, textOf(eventsOf(text))]).toEqual([200, "from lambda"]);
    expect(engines.seen(tag, "sg-p")[0]!.endedAt).toBeGreaterThan(0);
    expect(returnedAt - endedAt).toBeGreaterThan(200);

    // A header that no request can have, and an answer without a body.
    const complaint = spyOn(console, "error").mockImplementation(() => {});
    for (const [headers, status] of [
      [{ "no name": "x" }, 400],
      [{ host: "fn" }, 200],
    ] as const) {
      meta.length = 0;
      const requestContext = { domainName: "fn", http: { method: "HEAD", path: "/health" } };
      const odd = { ...lambdaEvent(""), headers, rawPath: "/health", requestContext };
      await handler(odd, new PassThrough().resume(), {});
      expect(meta[0]?.statusCode).toBe(status);
    }
    complaint.mockRestore();
  });

  test("lambda: a response stream that breaks closes decode, in mid-answer and in silence, and gives its place back", async () => {
    const { createLambdaHandler } = await import("../../src/runtime/lambda.ts");
    const pool = { engine: "sglang", prefill: [{ url: engines.url("sg-p") }], decode: [{ url: engines.url("sg-d") }] };
    const handler = createLambdaHandler({ config: { models: [{ id: "sg", pools: [pool] }] } });
    const flowing = Array.from({ length: 200 }, () => [50, delta("x".repeat(2_000))]).flat();
    for (const said of [[50, delta("x"), 9_000], flowing]) {
      const tag = engines.scenario({ "sg-p": prefilled(), "sg-d": stream([role(), ...said], "hang") });
      const body = JSON.stringify({ model: "sg", stream: true, messages: [{ role: "user", content: tag }] });
      const out = new PassThrough();
      let came = 0;
      out.on("data", (bytes: Buffer) => {
        came += bytes.length;
      });
      const handled = handler(lambdaEvent(body) as never, out, {} as never);
      await eventually("an answer has begun", () => came > 0);
      out.destroy();
      await eventually("decode is closed", () => engines.seen(tag, "sg-d")[0]!.leftAt > 0, 2_500);
      await handled;
      expect(handler.router.active()).toBe(0);
    }
  });

  test("vercel: the drain is in the platform's waitUntil", async () => {
    const tasks: Promise<unknown>[] = [];
    const key = Symbol.for("@vercel/request-context");
    Object.assign(globalThis, { [key]: { get: () => ({ waitUntil: (task: Promise<unknown>) => tasks.push(task) }) } });
    const path = "../../examples/vercel/api/index.mjs";
    const { POST, GET } = (await import(path)) as Record<string, (request: Request) => Promise<Response>>;
    const tag = engines.scenario({ "sg-p": prefilled(600), "sg-d": words("from ", "vercel") });
    const response = await POST!(chatRequest(tag, "http://fn/v1/chat/completions"));
    expect(textOf(eventsOf(await response.text()))).toBe("from vercel");
    expect(tasks.length).toBeGreaterThanOrEqual(2);
    await Promise.all(tasks);
    expect(engines.seen(tag, "sg-p")[0]!.endedAt).toBeGreaterThan(0);
    Object.assign(globalThis, { [key]: undefined });
    // Under the folder that Vercel keeps functions in, too.
    const again = engines.scenario({ "sg-p": prefilled(), "sg-d": words("below ", "api") });
    const below = await POST!(chatRequest(again, "http://fn/api/v1/chat/completions?path=x"));
    expect(textOf(eventsOf(await below.text()))).toBe("below api");
    for (const [where, status] of [
      ["/api/health", 200],
      ["/api", 200],
      ["/health", 200],
      ["/apiary/health", 404],
      ["/api/api/health", 404],
    ] as const) {
      expect([where, (await GET!(new Request(`http://fn${where}`))).status]).toEqual([where, status]);
    }
  });

  test("vercel: its project sends every path to the function", () => {
    const project = JSON.parse(readFileSync(join(EXAMPLES, "vercel", "vercel.json"), "utf8"));
    expect(project.rewrites).toEqual([{ source: "/(.*)", destination: "/api" }]);
    for (const file of Object.keys(project.functions)) expect(existsSync(join(EXAMPLES, "vercel", file))).toBe(true);
  });

  test("engines that hand over in turn work in an embedded router too", async () => {
    const { createRouter } = await import("../../src/index.ts");
    const pool = { engine: "vllm", prefill: [{ url: engines.url("vl-p") }], decode: [{ url: engines.url("vl-d") }] };
    const router = createRouter({ config: { models: [{ id: "sg", pools: [pool] }], health: { intervalMs: 100 } } });
    const tag = engines.scenario({ "vl-p": handedOff(), "vl-d": words("ok") });
    const response = await router.fetch(chatRequest(tag, "http://x/v1/chat/completions"));
    expect(textOf(eventsOf(await response.text()))).toBe("ok");
    // Probes ride on requests where no server has a timer: a worker that says it is down is found out.
    engines.health.set("vl-p", 503);
    for (let round = 0; round < 40; round++) {
      await (await router.fetch(new Request("http://x/ready"))).text();
      await sleep(25);
    }
    expect((await router.fetch(new Request("http://x/ready"))).status).toBe(503);
    engines.health.delete("vl-p");
  });
});
