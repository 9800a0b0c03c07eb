import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { KeyRing } from "../../src/middleware/key-ring.ts";
import { EngineHouse, type Reply, routerOver } from "../fleet/house.ts";

const KEYS = { A: "key-of-team-a", B: "key-of-team-b", C: "key-of-team-c", ADMIN: "key-of-admin" };
const MODELS = [
  { id: "m1", aliases: ["gpt-x"], adapters: ["lora"], pools: [{ engine: "openai", workers: ["http://w1:1"] }] },
  { id: "m2", pools: [{ engine: "openai", workers: ["http://w2:1"] }] },
];
const CLIENT_KEYS = [
  { name: "a", keyEnv: "A", models: ["m1"] },
  { name: "b", keyEnv: "B", models: ["gpt-x"], requestsPerMinute: 2 },
  { name: "c", keyEnv: "C", tokensPerMinute: 1_000 },
];

function keyed() {
  const house = new EngineHouse();
  const answer = () => Response.json({ choices: [{ message: { content: "hi" }, finish_reason: "stop" }] });
  house.engines.set("http://w1:1", answer).set("http://w2:1", answer);
  const { router } = routerOver(
    house,
    { models: MODELS, auth: { clientKeys: CLIENT_KEYS, adminKeyEnv: "ADMIN" } },
    { env: KEYS },
  );
  async function ask(path: string, headers: Record<string, string>, body?: object): Promise<Reply> {
    const init: RequestInit = { headers: { "content-type": "application/json", ...headers } };
    if (body !== undefined) Object.assign(init, { method: "POST", body: JSON.stringify(body) });
    const response = await router.fetch(new Request(`http://router${path}`, init));
    return { status: response.status, headers: response.headers, json: await response.json() };
  }
  const chat = (key: string, model: string, content = "x") =>
    ask("/v1/chat/completions", { authorization: `Bearer ${key}` }, { model, messages: [{ role: "user", content }] });
  return { house, ask, chat };
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe("client keys", () => {
  afterEach(() => {
    spyOn(crypto.subtle, "digest").mockRestore();
  });

  test("every route that reaches an engine asks for one, in either header, before it reads the body", async () => {
    const { house, ask } = keyed();
    const body = { model: "m2", messages: [], prompt: "x", input: "x", text: "x" };
    const posts = [
      "chat/completions",
      "completions",
      "responses",
      "messages",
      "embeddings",
      "rerank",
      "score",
      "classify",
    ];
    for (const path of [...posts.map((name) => `/v1/${name}`), "/generate", "/tokenize", "/detokenize"]) {
      for (const headers of [
        {},
        bearer("wrong"),
        bearer(KEYS.ADMIN),
        { authorization: `Basic ${KEYS.A}` },
        { "api-key": KEYS.A },
      ]) {
        const { status, json, headers: challenge } = await ask(path, headers as Record<string, string>, body);
        expect({ path, status, code: (json.error ?? json).code }).toEqual({ path, status: 401, code: "unauthorized" });
        expect(challenge.get("www-authenticate")).toBe("Bearer");
      }
    }
    expect((await ask("/v1/models", {})).status).toBe(401);
    expect(house.seen).toHaveLength(0);
    expect((await ask("/v1/chat/completions", { "x-api-key": KEYS.C }, body)).status).toBe(200);
    expect((await ask("/v1/chat/completions", { authorization: `bearer ${KEYS.C}` }, body)).status).toBe(200);
  });

  test("a key that was checked goes no further, in whichever header it came", async () => {
    const { house, ask } = keyed();
    const { transport } = house;
    const sent: string[] = [];
    const { fetch } = transport;
    transport.fetch = (url, request) => {
      sent.push(JSON.stringify(request.headers));
      return fetch(url, request);
    };
    const headers = { ...bearer(KEYS.C), "x-api-key": KEYS.C, "api-key": KEYS.C };
    expect((await ask("/v1/chat/completions", headers, { model: "m2", messages: [] })).status).toBe(200);
    expect((await ask("/v1/embeddings", headers, { model: "m2", input: "x" })).status).toBe(200);
    expect(sent).toHaveLength(2);
    expect(sent.join()).not.toContain(KEYS.C);
  });

  test("each may use its own models: an id opens all its names, a name only itself; others are not even listed", async () => {
    const { house, ask, chat } = keyed();
    const status = async (key: string, model: string) => (await chat(key, model)).status;
    expect(await Promise.all(["m1", "gpt-x", "lora", "m2"].map((model) => status(KEYS.A, model)))).toEqual([
      200, 200, 200, 403,
    ]);
    expect(await Promise.all(["gpt-x", "m1"].map((model) => status(KEYS.B, model)))).toEqual([200, 403]);
    expect(await status(KEYS.C, "m2")).toBe(200);
    const seen = house.seen.length;
    expect((await ask("/v1/embeddings", bearer(KEYS.A), { model: "m2", input: "x" })).status).toBe(403);
    expect((await ask("/v1/embeddings", bearer(KEYS.B), { model: "gpt-x", input: "x" })).status).not.toBe(403);
    expect(house.seen.length).toBe(seen + 1);
    const listed = async (key: string) => {
      const { json } = await ask("/v1/models", bearer(key));
      return (json.data as { id: string }[]).map(({ id }) => id);
    };
    expect(await listed(KEYS.A)).toEqual(["m1", "gpt-x", "lora"]);
    expect(await listed(KEYS.B)).toEqual(["gpt-x"]);
    expect(await listed(KEYS.C)).toEqual(["m1", "gpt-x", "lora", "m2"]);
    expect((await ask("/v1/models/m2", bearer(KEYS.A))).status).toBe(404);
    expect((await ask("/v1/models/m1", bearer(KEYS.B))).status).toBe(404);
    expect((await ask("/v1/models/gpt-x", bearer(KEYS.B))).status).toBe(200);
  });

  test("each has limits of its own: 429 with Retry-After and x-ratelimit-*, and no engine hears of it", async () => {
    const { house, chat } = keyed();
    expect((await chat(KEYS.B, "gpt-x")).headers.get("x-ratelimit-remaining-requests")).toBe("1");
    await chat(KEYS.B, "gpt-x");
    const seen = house.seen.length;
    const { status, headers, json } = await chat(KEYS.B, "gpt-x");
    expect([status, json.error.code, json.error.type]).toEqual([429, "rate_limited", "rate_limit_error"]);
    expect(headers.get("retry-after")).toBe("30");
    expect(headers.get("x-ratelimit-limit-requests")).toBe("2");
    expect(headers.get("x-ratelimit-remaining-requests")).toBe("0");
    expect((await chat(KEYS.C, "m2", "x".repeat(3_600))).status).toBe(200);
    expect((await chat(KEYS.C, "m2", "x".repeat(3_600))).status).toBe(429);
    expect((await chat(KEYS.A, "m1")).status).toBe(200);
    expect(house.seen.length).toBe(seen + 2);
  });

  test("are compared as hashes of one length, every one of them, however early a difference shows", async () => {
    const ring = new KeyRing(
      Object.entries(KEYS).map(([name, key]) => ({ name, key })),
      "the-admin",
    );
    await ring.client(new Headers(bearer(KEYS.A)));
    const hashed: number[] = [];
    const digest = crypto.subtle.digest.bind(crypto.subtle);
    spyOn(crypto.subtle, "digest").mockImplementation((algorithm, data) => {
      hashed.push((data as Uint8Array).byteLength);
      return digest(algorithm, data);
    });
    // One hash of what was offered a request, whatever it is: nothing is compared that the client has chosen.
    for (const offered of [KEYS.A, KEYS.B, `${KEYS.A.slice(0, -1)}!`, "k", "x".repeat(10_000)]) {
      await ring.client(new Headers(bearer(offered))).catch(() => {});
    }
    expect(hashed).toEqual([13, 13, 13, 1, 10_000]);
  });

  test("and the admin's are apart: neither opens the other's doors", async () => {
    const { ask } = keyed();
    const refused = await ask("/workers", {});
    expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    expect((await ask("/workers", bearer(KEYS.A))).status).toBe(403);
    expect((await ask("/workers", bearer(KEYS.ADMIN))).status).toBe(200);
    expect((await ask("/v1/models", bearer(KEYS.ADMIN))).status).toBe(401);
  });
});
