import { describe, expect, test } from "bun:test";
import { errorOf, handRouter, settled } from "../attempt/hand-made.ts";

const POOL = { engine: "openai", prefill: [], decode: [], workers: [{ name: "w1", url: "http://w1:1/base" }] };
const EMBED = {
  path: "/v1/embeddings",
  body: '{"model":"alias","input":"x","data_parallel_rank":3,"big":9007199254740993}',
};

function aggregated(config: object = {}) {
  const hand = handRouter(POOL, config);
  return { ...hand, embed: () => hand.ask({}, { ...EMBED, body: EMBED.body.replace("alias", "m") }) };
}

describe("routes that one worker answers alone", () => {
  test("go to it with the client's body, less what the router owns, and its answer comes back", async () => {
    const { at, embed, load, router } = aggregated();
    const { response } = embed();
    await settled();
    expect(at("w1").url).toBe("http://w1:1/base/v1/embeddings");
    expect(at("w1").body).toBe('{"model":"m","input":"x","big":9007199254740993}');
    expect(router.active()).toBe(1);
    at("w1").whole('{"data":[1e400]}', 200, { "x-ratelimit-remaining": "3", server: "uvicorn" });
    const got = await response;
    expect(await got.text()).toBe('{"data":[1e400]}');
    expect(got.headers.get("x-router-path")).toBe("aggregated");
    expect(got.headers.get("x-router-decode")).toBe("w1");
    expect(got.headers.get("x-ratelimit-remaining")).toBe("3");
    expect(got.headers.get("server")).toBeNull();
    expect({ load: load(), active: router.active() }).toEqual({ load: 0, active: 0 });
  });

  test("classify is asked for where vLLM has it", async () => {
    const lab = handRouter({ ...POOL, engine: "vllm" });
    lab.ask({}, { path: "/v1/classify", body: '{"model":"m","input":"x"}' });
    await settled();
    expect(lab.at("w1").url).toBe("http://w1:1/base/classify");
  });

  test.each([
    ["bytes", "application/octet-stream", "\xff\xfe"],
    ["a page of a proxy's", "text/html", "<html>log in</html>"],
    ["nothing", "text/plain", ""],
  ])("an answer that is no JSON is none: %s", async (_, type, text) => {
    const { at, embed } = aggregated({ retries: { maxRetries: 0 } });
    const { response } = embed();
    await settled();
    at("w1").whole(text, 200, { "content-type": type });
    expect(await errorOf(response)).toMatchObject({ status: 502, router: "decode_failed" });
  });

  test("asked for by a client it is nobody's fault, and not tried elsewhere", async () => {
    const { at, embed, blamed, sent } = aggregated();
    const { response } = embed();
    await settled();
    at("w1").whole("bytes", 200, { "content-type": "application/octet-stream" });
    await response;
    expect([blamed("w1"), sent()]).toEqual([0, ["w1"]]);
  });

  test.each(["bytes", "bytes_only"])("embeddings as %s are refused, and the member named", async (format) => {
    const { ask, sent } = aggregated();
    const body = `{"model":"m","input":"x","encoding_format":"${format}"}`;
    const got = (await ask({}, { ...EMBED, body }).response) as Response;
    const { error } = await got.json();
    expect([got.status, error.param, sent()]).toEqual([400, "encoding_format", []]);
  });

  test("a type in capitals is JSON as well", async () => {
    const { at, embed } = aggregated();
    const { response } = embed();
    await settled();
    at("w1").whole("{}", 200, { "content-type": "Application/JSON" });
    expect((await response).status).toBe(200);
  });

  test("a worker that cannot be reached is blamed where only a bare connection tells", async () => {
    const { embed, clock, transport, blamed } = aggregated({ retries: { maxRetries: 0 } });
    transport.connects = async () => false;
    const { response } = embed();
    await clock.advance(2_500);
    expect((await response).status).toBe(502);
    expect(blamed("w1")).toBe(1);
  });

  test("without such a worker are 404", async () => {
    const { ask } = handRouter();
    expect(await errorOf(ask({}, { ...EMBED, body: '{"model":"m","input":"x"}' }).response)).toMatchObject({
      status: 404,
      router: "not_found",
    });
  });

  test("an engine's error keeps its status", async () => {
    const { at, embed, blamed } = aggregated();
    const { response } = embed();
    await settled();
    at("w1").json({ detail: "no such thing" }, 422);
    expect(await errorOf(response)).toMatchObject({
      status: 422,
      router: "decode_failed",
      error: { message: "no such thing" },
    });
    expect(blamed("w1")).toBe(0);
  });

  test("a worker that is silent for totalMs is 504 and blamed", async () => {
    const { at, embed, blamed, clock } = aggregated({ timeouts: { totalMs: 500 } });
    const { response } = embed();
    await clock.advance(500);
    expect(await errorOf(response)).toMatchObject({ status: 504, router: "decode_timeout" });
    expect(at("w1").closed).toBe(true);
    expect(blamed("w1")).toBe(1);
  });

  test("a client that leaves closes the leg; the worker is not blamed, the place is free", async () => {
    const { at, embed, blamed, load, router } = aggregated();
    const { leave } = embed();
    await settled();
    leave();
    await settled();
    expect(at("w1").closed).toBe(true);
    expect({ blamed: blamed("w1"), load: load(), active: router.active() }).toEqual({ blamed: 0, load: 0, active: 0 });
    expect(router.telemetry.metrics.render()).toMatch(/outcome="client_cancel"[^\n]*\} 1/);
  });

  test("a shutdown waits for it, and ends it with a real status when its time is up", async () => {
    const { at, embed, router, clock } = aggregated();
    const { response } = embed();
    await settled();
    const down = router.shutdown(300);
    await clock.advance(280);
    expect(at("w1").closed).toBe(false);
    await clock.advance(2_000);
    expect(await errorOf(response)).toMatchObject({ status: 503, router: "shutting_down" });
    expect(at("w1").closed).toBe(true);
    await down;
    expect(router.active()).toBe(0);
  });
});
