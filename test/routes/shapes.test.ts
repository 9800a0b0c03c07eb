import { describe, expect, test } from "bun:test";
import { errorOf, handRouter, settled } from "../attempt/hand-made.ts";

const JSON_HEADERS = { "content-type": "application/json" };
const POSTS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate"];

function post(path: string, body: BodyInit, headers: Record<string, string> = JSON_HEADERS): Request {
  return new Request(`http://router${path}`, { method: "POST", headers, body });
}

describe("a body the router cannot work with is refused before any worker hears of it", () => {
  const bad: [what: string, path: string, body: string, param: string | null][] = [
    ["not JSON", "/v1/chat/completions", "{", null],
    ["empty", "/v1/chat/completions", "", null],
    ["not an object", "/v1/chat/completions", "[]", null],
    ["text behind it", "/v1/chat/completions", '{"model":"m","messages":[]} x', null],
    ["a byte order mark", "/v1/chat/completions", '\ufeff{"model":"m","messages":[]}', null],
    ["no model", "/v1/chat/completions", '{"messages":[]}', "model"],
    ["a model that is null", "/v1/chat/completions", '{"model":null,"messages":[]}', "model"],
    ["a model that is no string", "/v1/chat/completions", '{"model":7,"messages":[]}', "model"],
    ["no messages", "/v1/chat/completions", '{"model":"m"}', "messages"],
    ["messages that are no list", "/v1/chat/completions", '{"model":"m","messages":"hi"}', "messages"],
    ["a stream that is no boolean", "/v1/chat/completions", '{"model":"m","messages":[],"stream":"yes"}', "stream"],
    ["a prompt that is a number", "/v1/completions", '{"model":"m","prompt":7}', "prompt"],
    ["no input", "/v1/responses", '{"model":"m"}', "input"],
    ["no messages", "/v1/messages", '{"model":"m","max_tokens":1}', "messages"],
    ["no text", "/generate", "{}", "text"],
  ];
  test.each(bad)("%s on %s: %s", async (_what, path, body, param) => {
    const { router, sent, load } = handRouter();
    const response = await router.fetch(post(path, body));
    expect(response.status).toBe(400);
    expect(response.headers.get("x-router-error-code")).toBe("invalid_request");
    expect(response.headers.get("content-type")).toBe("application/json");
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    expect(error).toMatchObject({ type: "invalid_request_error", code: "invalid_request", param, stage: "router" });
    expect(String(error.message).length).toBeGreaterThan(0);
    expect(sent()).toEqual([]);
    expect({ load: load(), active: router.active() }).toEqual({ load: 0, active: 0 });
  });

  test("bytes that are not UTF-8 are refused, never mended in silence", async () => {
    const { router } = handRouter();
    const bytes = new Uint8Array([
      ...new TextEncoder().encode('{"model":"m","messages":["'),
      0xff,
      ...new TextEncoder().encode('"]}'),
    ]);
    expect(await errorOf(Promise.resolve(router.fetch(post("/v1/chat/completions", bytes))))).toMatchObject({
      status: 400,
      router: "invalid_request",
    });
  });

  const types: [Record<string, string>, number][] = [
    [{ "content-type": "text/plain" }, 415],
    [{ "content-type": "application/x-www-form-urlencoded" }, 415],
    [{ "content-type": "application/json", "content-encoding": "gzip" }, 415],
    [{ "content-type": "application/json; charset=utf-8" }, 400],
    [{ "content-type": "application/vnd.api+json" }, 400],
    [{ "content-type": "application/json", "content-encoding": "identity" }, 400],
  ];
  test.each(types)("content headers %p of a body that is no JSON: %d", async (headers, status) => {
    const { router } = handRouter();
    expect((await router.fetch(post("/v1/chat/completions", "{", headers))).status).toBe(status);
  });

  test("a body over the limit is 413, with a declared length before it is read, without one as soon as it is passed", async () => {
    const { router } = handRouter({ engine: "sglang" }, { limits: { bodyBytes: 1_000 } });
    const declared = new Request("http://router/v1/chat/completions", {
      method: "POST",
      headers: { ...JSON_HEADERS, "content-length": "5000" },
      body: "{}",
    });
    expect(await errorOf(Promise.resolve(router.fetch(declared)))).toMatchObject({
      status: 413,
      router: "body_too_large",
    });

    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(600).fill(32));
      },
    });
    const streamed = new Request("http://router/v1/chat/completions", {
      method: "POST",
      headers: JSON_HEADERS,
      body: endless,
    });
    expect((await router.fetch(streamed)).status).toBe(413);
    expect(pulled).toBeLessThan(10);
  });
});

describe("routes", () => {
  test("what is not listed is 404 and reaches no worker", async () => {
    const { router, sent } = handRouter();
    for (const path of [
      "/v1/audio/speech",
      "/v1/chat",
      "/flush_cache",
      "/v1/chat/completions/x",
      "/server_info",
      "//v1/models",
    ]) {
      const response = await router.fetch(post(path, "{}"));
      expect(response.status).toBe(404);
      expect(response.headers.get("x-router-error-code")).toBe("not_found");
    }
    expect(sent()).toEqual([]);
  });

  test("the wrong method is 405 and names the right one", async () => {
    const { router } = handRouter();
    for (const path of POSTS) {
      const response = await router.fetch(new Request(`http://router${path}`));
      expect({ path, status: response.status, allow: response.headers.get("allow") }).toEqual({
        path,
        status: 405,
        allow: "POST",
      });
      expect(response.headers.get("x-router-error-code")).toBe("method_not_allowed");
    }
    for (const path of ["/v1/models", "/health", "/ready", "/metrics"]) {
      const response = await router.fetch(post(path, "{}"));
      expect({ path, status: response.status, allow: response.headers.get("allow") }).toEqual({
        path,
        status: 405,
        allow: "GET",
      });
    }
  });

  test("/v1/messages has the envelope of its API", async () => {
    const { router } = handRouter();
    const response = await router.fetch(post("/v1/messages", '{"model":"nobody","messages":[]}'));
    expect(response.status).toBe(404);
    expect((await response.json()) as object).toMatchObject({
      type: "error",
      error: { type: "not_found_error", code: "model_not_found", param: "model", stage: "router" },
    });
  });

  test("/health never looks at workers; /ready tells what is missing, without addresses", async () => {
    const { router, worker, clock } = handRouter({ engine: "sglang" }, { breaker: { failures: 1, openMs: 10_000 } });
    const get = (path: string) => router.fetch(new Request(`http://router${path}`));
    expect((await get("/ready")).status).toBe(200);
    worker("d1").failed(clock.now());
    expect((await get("/ready")).status).toBe(200);
    worker("d2").failed(clock.now());
    const down = await get("/ready");
    expect(down.status).toBe(503);
    const text = await down.text();
    expect(JSON.parse(text).models.m).toMatchObject({ ready: false });
    expect(text).not.toContain("http://");
    const health = await get("/health");
    expect({ status: health.status, body: await health.json() }).toEqual({ status: 200, body: { status: "ok" } });
  });
});

describe("request ids", () => {
  test("a client's plain id comes back, on errors too; another one cleaned, and there is always one", async () => {
    const { router } = handRouter();
    const idOf = async (id?: string) => {
      const response = await router.fetch(
        post("/v1/chat/completions", "{", id === undefined ? JSON_HEADERS : { ...JSON_HEADERS, "x-request-id": id }),
      );
      return response.headers.get("x-request-id");
    };
    expect(await idOf("abc-1.2:3@4")).toBe("abc-1.2:3@4");
    expect(await idOf()).toMatch(/^req-[0-9a-f]{16}$/);
    expect(await idOf("<a b>")).toBe("ab");
  });

  test("engines never see it: theirs is the router's own", async () => {
    const { at, ask } = handRouter();
    ask({}, { headers: { ...JSON_HEADERS, "x-request-id": "mine" } });
    await settled();
    expect(at("p1").headers["x-request-id"]).not.toBe("mine");
  });
});

describe("errors of engines", () => {
  test("keep status, message, type and code; the header has the router's code; messages are bounded and keys masked", async () => {
    const { router, at, ask } = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
    const { response } = ask();
    await settled();
    at("p1").json(
      {
        error: {
          message: `${"x".repeat(20_000)}é`,
          type: "BadRequestError",
          code: "context_length_exceeded",
          param: "messages",
        },
      },
      400,
    );
    const got = await errorOf(response);
    expect(got).toMatchObject({
      status: 400,
      router: "prefill_failed",
      error: { type: "BadRequestError", code: "context_length_exceeded", param: "messages" },
    });
    expect(new TextEncoder().encode(String(got.error.message)).length).toBeLessThanOrEqual(8_192);
    expect(router.active()).toBe(0);
  });

  test("a redirect is not followed: it is a 502", async () => {
    const { at, ask, sent } = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
    const { response } = ask();
    await settled();
    at("d1").whole("", 307, { location: "http://elsewhere/" });
    expect((await response).status).toBe(502);
    expect(sent()).toEqual(["p1", "d1"]);
  });

  test("a fault of ours is 500 internal, and no stack trace leaves the process", async () => {
    const { router, transport } = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
    transport.onRequest = () => {
      throw new RangeError("a bug at /srv/router/src/secret.ts:1");
    };
    router.services.fleet.resolve = () => {
      throw new RangeError("a bug at /srv/router/src/secret.ts:1");
    };
    const response = await router.fetch(post("/v1/chat/completions", '{"model":"m","messages":[]}'));
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(text).toContain('"code":"internal"');
    expect(text).not.toContain("secret");
    expect(router.active()).toBe(0);
  });
});
