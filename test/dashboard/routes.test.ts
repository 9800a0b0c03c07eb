import { expect, test } from "bun:test";
import type { PrefillRouter } from "../../src/create-router.ts";
import { ADMIN, EngineHouse, routerOver } from "../fleet/house.ts";

const CONFIG = {
  models: [{ id: "m", pools: [{ engine: "openai", workers: [{ url: "http://10.1.2.3:8080", name: "w" }] }] }],
};

function keyed(): PrefillRouter {
  return routerOver(new EngineHouse(), CONFIG).router;
}

function open(): PrefillRouter {
  return routerOver(new EngineHouse(), { ...CONFIG, auth: {} }).router;
}

async function get(router: PrefillRouter, path: string, key?: string, headers: Record<string, string> = {}) {
  return router.fetch(
    new Request(`http://router${path}`, {
      headers: { ...headers, ...(key !== undefined && { authorization: `Bearer ${key}` }) },
    }),
  );
}

/** The text of a stream's first event; then the viewer leaves. */
async function firstEvent(response: Response): Promise<string> {
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return new TextDecoder().decode(value);
}

test("the shell is public and holds no data, even where there is a key", async () => {
  const response = await get(keyed(), "/");
  expect(response.status).toBe(200);
  const page = await response.text();
  expect(page).toContain("<title>prefill-router</title>");
  expect(page).not.toContain("10.1.2.3");
});

test("the pages allow no script but the router's own, no foreign frame, no other host", async () => {
  for (const path of ["/", "/docs"]) {
    const { headers } = await get(open(), path);
    const policy = headers.get("content-security-policy")!;
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain("unsafe");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  }
});

test("files are served by name, and nothing else is", async () => {
  const router = open();
  expect((await get(router, "/assets/dashboard.js")).headers.get("content-type")).toStartWith("text/javascript");
  expect((await get(router, "/assets/dashboard.css")).headers.get("content-type")).toStartWith("text/css");
  for (const name of ["main.ts", "..%2Fpage.ts", "constructor", "__proto__"]) {
    const response = await get(router, `/assets/${name}`);
    expect({ name, status: response.status }).toEqual({ name, status: 404 });
    expect(response.headers.get("x-router-error-code")).toBe("not_found");
  }
});

test("data needs the admin key once one is set", async () => {
  const router = keyed();
  expect((await get(router, "/dashboard/events")).status).toBe(401);
  expect((await get(router, "/dashboard/events", "wrong")).status).toBe(403);
  const response = await get(router, "/dashboard/events", ADMIN);
  expect(response.status).toBe(200);
  expect(await firstEvent(response)).toContain("http://10.1.2.3:8080");
});

test("without an admin key the data is open, and has no addresses", async () => {
  const response = await get(open(), "/dashboard/events");
  expect(response.status).toBe(200);
  const event = await firstEvent(response);
  expect(event).toContain('"name":"w"');
  expect(event).not.toContain("10.1.2.3");
});

test("the stream is one that no proxy collects", async () => {
  const { headers, body } = await get(open(), "/dashboard/events");
  await body!.cancel();
  expect(headers.get("content-type")).toStartWith("text/event-stream");
  expect(headers.get("cache-control")).toBe("no-cache, no-transform");
  expect(headers.get("x-accel-buffering")).toBe("no");
  expect(headers.get("x-request-id")).toBeTruthy();
});

test("viewers are bounded, and a place is free again when one leaves", async () => {
  const router = open();
  const viewers = await Promise.all(Array.from({ length: 32 }, () => get(router, "/dashboard/events")));
  const refused = await get(router, "/dashboard/events");
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("5");
  await viewers[0]!.body!.cancel();
  const admitted = await get(router, "/dashboard/events");
  expect(admitted.status).toBe(200);
  for (const { body } of [...viewers.slice(1), admitted]) await body!.cancel();
});

test("a viewer is no request in progress: shutdown does not wait for it", async () => {
  const router = open();
  const { body } = await get(router, "/dashboard/events");
  const reader = body!.getReader();
  await reader.read();
  expect(router.active()).toBe(0);
  const began = performance.now();
  await router.shutdown(5_000);
  expect(performance.now() - began).toBeLessThan(1_000);
  expect((await reader.read()).done).toBe(false);
  expect((await reader.read()).done).toBe(true);
});

test("other origins cannot read the data, even where CORS is on", async () => {
  const router = routerOver(new EngineHouse(), {
    ...CONFIG,
    auth: {},
    cors: { origins: ["https://app.example"] },
  }).router;
  const origin = { origin: "https://app.example" };
  const { headers, body } = await get(router, "/dashboard/events", undefined, origin);
  await body!.cancel();
  expect(headers.get("access-control-allow-origin")).toBeNull();
  const models = await get(router, "/v1/models", undefined, origin);
  expect(models.headers.get("access-control-allow-origin")).toBe("https://app.example");
});
