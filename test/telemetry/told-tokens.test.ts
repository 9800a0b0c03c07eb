import { describe, expect, test } from "bun:test";
import { rowOf } from "../../src/dashboard/row.ts";
import { Log } from "../../src/telemetry/log.ts";
import { handRouter, settled, textOf } from "../attempt/hand-made.ts";
import { DONE, finish, ROLE, say, USAGE } from "../relay/hand-made.ts";

describe("prompt tokens are those that an engine told; what the router guesses is called a guess", () => {
  test("a stream without usage adds nothing to them", async () => {
    const { counter, record, row, line } = await streamed(ROLE, say("hi"), finish(), DONE);
    expect(counter("prompt_tokens_total")).toBe(0);
    expect(record.promptTokens).toBe(0);
    expect(record.promptEstimate).toBeGreaterThan(0);
    expect(line).toMatchObject({ prompt_tokens_estimate: record.promptEstimate });
    expect(line).not.toHaveProperty("prompt_tokens");
    expect([row.promptTokens, row.promptEstimate]).toEqual([undefined, record.promptEstimate]);
  });

  test("one with usage adds what it says", async () => {
    const { counter, row, line } = await streamed(ROLE, say("hi"), finish(), USAGE, DONE);
    expect(counter("prompt_tokens_total")).toBe(3);
    expect(line).toMatchObject({ prompt_tokens: 3 });
    expect(line).not.toHaveProperty("prompt_tokens_estimate");
    expect([row.promptTokens, row.promptEstimate]).toEqual([3, undefined]);
  });

  test("nor does a fan-out whose engines tell nothing", async () => {
    const { ask, at, counter } = handRouter();
    const { response } = ask({ n: 2, stream: false });
    await settled();
    for (const name of ["p1", "p2", "d1", "d2"]) at(name).json({ choices: [{ index: 0, message: { content: "hi" } }] });
    expect((await response).status).toBe(200);
    expect(counter("prompt_tokens_total")).toBe(0);
  });
});

async function streamed(...events: string[]) {
  const hand = handRouter({ engine: "openai", prefill: [], decode: [], workers: [{ name: "w1", url: "http://w1:1" }] });
  const { response } = hand.ask();
  await settled();
  hand
    .at("w1")
    .head()
    .push(...events)
    .end();
  await textOf(response);
  const record = hand.router.telemetry.recent.finished()[0]!;
  const lines: string[] = [];
  const log = new Log((line) => lines.push(line), { level: "info", prompts: false, wallNow: () => 0, mask: String });
  log.request(record);
  return { ...hand, record, row: rowOf(record, 1, false), line: JSON.parse(lines[0]!) };
}
