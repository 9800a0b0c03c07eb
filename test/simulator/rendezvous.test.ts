import { expect, test } from "bun:test";
import { createFabric } from "../../src/simulator/fabric.ts";
import { chat, chatText, json, ManualClock, makeTrio, post, rooms, settle, splice } from "./support.ts";

const path = "/v1/chat/completions";
const body = JSON.stringify({ ...chat, stream: true, seed: 7 });
const prefillBody = JSON.stringify({ ...chat, seed: 7 });

function watch<T>(promise: Promise<T>): { readonly state: string } {
  const watched = { state: "pending" };
  promise.then(
    () => (watched.state = "done"),
    () => (watched.state = "failed"),
  );
  return watched;
}

test("decode that comes first says nothing, not even headers, until prefill has moved the blocks", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }), {
    timing: { prefillMsPerToken: 1, transferMs: 40, itlMs: 0 },
  });
  const answer = post(decode, path, splice(body, rooms()));
  const watched = watch(answer);
  await clock.advance(60_000);
  expect(watched.state).toBe("pending");

  const prefilled = post(prefill, path, splice(prefillBody, rooms()));
  await clock.advance(12);
  expect(watched.state).toBe("pending");
  await clock.advance(1000);
  expect(watched.state).toBe("done");
  expect((await prefilled).status).toBe(200);
  expect(chatText(await (await answer).text())).not.toBe("");
  expect(prefill.side?.stats.pairs).toBe(1);
  expect(prefill.side?.openRooms).toBe(0);
});

test("prefill that comes first gives its 200 only after decode has come and the transfer is through", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }), {
    timing: { prefillMsPerToken: 0, transferMs: 40, itlMs: 0 },
  });
  const answer = post(prefill, path, splice(prefillBody, rooms()));
  const watched = watch(answer);
  await clock.advance(60_000);
  expect(watched.state).toBe("pending");
  const decoded = post(decode, path, splice(body, rooms()));
  await clock.advance(39);
  expect(watched.state).toBe("pending");
  await clock.advance(1);
  const prefilled = await json(answer);
  expect(prefilled.usage.completion_tokens).toBe(1);
  expect(prefilled.choices[0].finish_reason).toBe("length");
  await (await decoded).text();
});

test("decode is not told of a failed prefill: it waits 300 s and then fails", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }));
  const decoded = post(decode, path, splice(body, rooms()));
  const watched = watch(decoded);
  const failed = await post(prefill, path, splice(prefillBody, rooms()), {
    headers: { "x-sim-prefill": "status:503" },
  });
  expect(failed.status).toBe(503);
  await clock.advance(299_999);
  expect(watched.state).toBe("pending");
  await clock.advance(1);
  expect((await decoded).status).toBe(500);
  expect(decode.stats.pairTimeouts).toBe(1);
});

test("prefill without its decode fails after 300 s", async () => {
  const clock = new ManualClock();
  const { prefill } = makeTrio("sglang", createFabric({ clock }));
  const answer = post(prefill, path, splice(prefillBody, rooms()));
  await clock.advance(300_000);
  expect((await answer).status).toBe(500);
});

test("a decode that hangs up leaves its room, and prefill goes on waiting for another", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }));
  const leaving = new AbortController();
  const gone = post(decode, path, splice(body, rooms()), { signal: leaving.signal });
  gone.catch(() => {});
  await settle();
  expect(decode.inFlight).toBe(1);
  leaving.abort();
  await settle();
  expect(decode.inFlight).toBe(0);
  expect(decode.stats.aborts).toBe(1);
  const prefilled = watch(post(prefill, path, splice(prefillBody, rooms())));
  await clock.advance(1000);
  expect(prefilled.state).toBe("pending");
});

test("a decode that leaves after prefill has met it makes the transfer fail on prefill", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }), {
    timing: { prefillMsPerToken: 0, transferMs: 50 },
  });
  const leaving = new AbortController();
  const prefilled = post(prefill, path, splice(prefillBody, rooms()));
  post(decode, path, splice(body, rooms()), { signal: leaving.signal }).catch(() => {});
  await clock.advance(10);
  leaving.abort();
  await clock.advance(40);
  expect((await prefilled).status).toBe(500);
});

test("rooms that differ in their last digit beyond 2^53 do not meet", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }));
  const decoded = watch(post(decode, path, splice(body, rooms("9223372036854775806"))));
  const prefilled = watch(post(prefill, path, splice(prefillBody, rooms("9223372036854775807"))));
  await clock.advance(100_000);
  expect(decoded.state).toBe("pending");
  expect(prefilled.state).toBe("pending");
});

test("two legs with different prompts give a 200 with wrong words", async () => {
  const { prefill, decode, aggregated } = makeTrio("sglang", createFabric());
  const other = JSON.stringify({ ...chat, messages: [{ role: "user", content: "another" }] });
  const [decoded] = await Promise.all([
    post(decode, path, splice(body, rooms())).then((response) => response.text()),
    post(prefill, path, splice(other, rooms())),
  ]);
  const right = await (await post(aggregated, path, body)).text();
  expect(chatText(decoded)).not.toBe(chatText(right));
  expect(decode.stats.mismatched).toBe(1);
});

test("a room that is in use by a live request is refused, not shared", async () => {
  const { prefill } = makeTrio("sglang", createFabric({ clock: new ManualClock() }));
  void post(prefill, path, splice(prefillBody, rooms())).catch(() => {});
  await settle();
  expect((await post(prefill, path, splice(prefillBody, rooms()))).status).toBe(500);
  expect(prefill.side?.stats.reusedRooms).toBe(1);
});

test("n > 1 with one room hangs on both legs", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("sglang", createFabric({ clock }));
  const three = JSON.stringify({ ...chat, n: 3 });
  const legs = [prefill, decode].map((engine) => watch(post(engine, path, splice(three, rooms()))));
  await clock.advance(400_000);
  expect(legs.map((leg) => leg.state)).toEqual(["pending", "pending"]);
});

test("a batch meets in one room per prompt and gives the texts of an aggregated engine", async () => {
  const { prefill, decode, aggregated } = makeTrio("sglang", createFabric());
  const batch = JSON.stringify({ text: ["first", "second"], sampling_params: { max_new_tokens: 5 } });
  const both = splice(batch, {
    bootstrap_host: '["127.0.0.1","127.0.0.1"]',
    bootstrap_port: "[8998,8998]",
    bootstrap_room: "[9223372036854775801,9223372036854775802]",
  });
  const [decoded] = await Promise.all([json(post(decode, "/generate", both)), post(prefill, "/generate", both)]);
  const right = await json(post(aggregated, "/generate", batch));
  expect(decoded.map((item: { text: string }) => item.text)).toEqual(right.map((item: { text: string }) => item.text));
  expect(prefill.side?.stats.pairs).toBe(2);
});

for (const connector of ["nixl-push", "mooncake"] as const) {
  test(`${connector}: decode gives nothing, not even headers, before its prefill has computed`, async () => {
    const clock = new ManualClock();
    const { prefill, decode, aggregated } = makeTrio("vllm", createFabric({ clock }), { connector });
    const id = "req-1";
    const shared = { remote_engine_id: prefill.engineId, do_remote_prefill: true, do_remote_decode: false };
    const params =
      connector === "mooncake"
        ? { ...shared, transfer_id: "xfer-1", remote_bootstrap_addr: "http://127.0.0.1:8998" }
        : { ...shared, remote_host: "127.0.0.1", remote_port: 5600, tp_size: 1, pp_size: 1, remote_request_id: id };
    const headers = { "x-request-id": id };
    const decoded = post(decode, path, { ...chat, kv_transfer_params: params }, { headers });
    const watched = watch(decoded);
    await clock.advance(10_000);
    expect(watched.state).toBe("pending");
    const prefilled = await json(
      post(
        prefill,
        path,
        {
          ...chat,
          max_tokens: 1,
          kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false, transfer_id: "xfer-1" },
        },
        { headers },
      ),
    );
    expect(prefilled.kv_transfer_params).toBeNull();
    await clock.advance(10);
    const right = await json(post(aggregated, path, chat));
    expect((await json(decoded)).choices[0].message.content).toBe(right.choices[0].message.content);
  });
}
