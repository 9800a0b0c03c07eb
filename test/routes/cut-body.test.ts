import { expect, test } from "bun:test";
import { handRouter, settled } from "../attempt/hand-made.ts";

const WORKERS = [{ name: "w1", url: "http://w1:1" }];

test.each(["/v1/chat/completions", "/v1/embeddings"])(
  "%s: a client that leaves while its body is read has made no bad request",
  async (path) => {
    const { router, ask, leaving, counter } = reading(path);
    const { response } = ask();
    await settled();
    leaving();
    expect((await response).status).toBe(499);
    expect(router.telemetry.recent.finished()[0]).toMatchObject({ outcome: "client_cancel", status: 499, code: "" });
    expect([counter("rejected_total"), counter("errors_total"), router.active()]).toEqual([0, 0, 0]);
  },
);

test("a body that ends early while its client is there is one", async () => {
  const { ask, cut, counter } = reading("/v1/chat/completions");
  const { response } = ask();
  await settled();
  cut();
  expect((await response).status).toBe(400);
  expect(counter("rejected_total")).toBe(1);
});

/** A router that is reading a body of which half has come. */
function reading(path: string) {
  const hand = handRouter({ engine: "openai", prefill: [], decode: [], workers: WORKERS });
  const client = new AbortController();
  let cut = (): void => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"model":"m",'));
      cut = () => controller.error(new Error("The connection was closed"));
    },
  });
  const leaving = (): void => {
    client.abort();
    cut();
  };
  return { ...hand, ask: () => hand.ask({}, { path, body, signal: client.signal }), cut: () => cut(), leaving };
}
