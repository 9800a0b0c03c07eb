import { describe, expect, test } from "bun:test";
import { eventEdits } from "../../src/engines/response-edits.ts";
import { request } from "../engines/request.ts";
import { settled } from "../manual-clock.ts";
import { DONE, event, failPrefill, finish, relayed, say } from "./hand-made.ts";

const typed = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;

describe("events that pass without being read", () => {
  test("an alias stands in each of them, however they are packed", async () => {
    const editor = eventEdits(request('{"stream":true}', "chat", { model: "fast", engineModel: '"org/m"' }));
    const { engine, drain } = await relayed({ alone: true, options: { editor } });
    const says = (model: string, content: string) =>
      event({ id: "c1", model, choices: [{ index: 0, delta: { content }, finish_reason: null }] });
    engine
      .push(says("org/m", "a"), says("org/m", "org/m") + says("org/m", "ä") + says("org/m", '"model"'), finish() + DONE)
      .end();
    expect(await drain()).toBe(
      says("fast", "a") + says("fast", "org/m") + says("fast", "ä") + says("fast", '"model"') + finish() + DONE,
    );
  });

  test("responses: the router's own event is numbered after the last of them", async () => {
    const { engine, drain } = await relayed({ api: "responses", alone: true });
    const delta = (sequence_number: number) => typed("response.output_text.delta", { delta: "hi", sequence_number });
    engine.push(delta(4), delta(5) + delta(6), delta(7)).cut();
    const text = await drain();
    expect(text).toStartWith(delta(4) + delta(5) + delta(6) + delta(7));
    const frame = text.slice((delta(4) + delta(5) + delta(6) + delta(7)).length);
    expect(JSON.parse(frame.split("data: ")[1]!)).toMatchObject({ type: "error", sequence_number: 8 });
  });

  test("responses: what never went out has no number: an error that is replaced, a finish that was held", async () => {
    const delta = typed("response.output_text.delta", { delta: "hi", sequence_number: 4 });
    const completed = { sequence_number: 5, response: { status: "completed" } };
    for (const end of ["an error", "prefill fails"]) {
      const { engine, drain, task } = await relayed({ api: "responses", alone: end === "an error" });
      engine.push(delta);
      const all = drain();
      if (end === "an error") engine.push('data: {"object":"error","message":"boom","sequence_number":5}\n\n');
      else {
        engine.push(typed("response.completed", completed));
        await settled();
        failPrefill(task, "status");
      }
      const frame = (await all).slice(delta.length);
      expect(JSON.parse(frame.split("data: ")[1]!)).toMatchObject({ type: "error", sequence_number: 5 });
    }
  });

  test("responses: a comment behind the held events has no number", async () => {
    const created = typed("response.created", { sequence_number: 0, response: { instructions: "x".repeat(70_000) } });
    const { engine, drain } = await relayed({ api: "responses", alone: true });
    engine.push(`${created}: ping\n\n`);
    const all = drain();
    await settled();
    engine.cut();
    const frame = (await all).split("data: ").at(-1)!;
    expect(JSON.parse(frame)).toMatchObject({ type: "error", sequence_number: 1 });
  });

  test("the prompt's logprobs stand in every event of /generate, and the first waits for them", async () => {
    const body = '{"text":"a","return_logprob":true,"logprob_start_len":0,"stream":true}';
    const { engine, drain, task, commit } = await relayed({
      api: "generate",
      options: { editor: eventEdits(request(body, "generate")) },
    });
    const item = (text: string, lists: object, reason: string | null = null) =>
      event({ text, meta_info: { finish_reason: reason, ...lists } });
    engine.push(item("a", {}), item("a b", {}));
    await settled();
    expect(commit.state).toBe("pending");
    const all = drain();
    task.settle({
      ok: true,
      tail: { inputLogprobs: { members: [{ key: "input_token_logprobs", raw: "[[-1,2,null]]" }] } },
    });
    engine.push(item("a b c", {}), item("a b c d", {}, "stop") + DONE).end();
    const lists = { input_token_logprobs: [[-1, 2, null]] };
    expect(await all).toBe(
      item("a", lists) + item("a b", lists) + item("a b c", lists) + item("a b c d", lists, "stop") + DONE,
    );
    expect(commit.state).toBe("committed");
  });

  test("no mark, no editor: the very bytes", async () => {
    const { engine, drain } = await relayed({ alone: true });
    engine.push(say("a"), say("b") + say("c"), finish() + DONE).end();
    expect(await drain()).toBe(say("a") + say("b") + say("c") + finish() + DONE);
  });
});
