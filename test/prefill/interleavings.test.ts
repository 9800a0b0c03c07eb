import { expect, test } from "bun:test";
import fc from "fast-check";
import { consumePrefillStream } from "../../src/prefill/consume.ts";
import { PrefillError } from "../../src/prefill/errors.ts";
import type { PrefillOutput } from "../../src/prefill/output.ts";
import { bootstrap, CountingGuard, data, HandMade, surroundings } from "./hand-made.ts";

/** A script is what one side does, in order; the steps say whose turn it is. "turn" lets all microtasks run, so without it steps share a tick. */
type PrefillMove = "data" | "error" | "finish error" | "cancelled" | "end" | "break";
type DecodeMove = "open" | "refuse" | "token" | "finish" | "failed item" | "end" | "break";
type Step = "prefill" | "decode" | "clock" | "turn" | "leave";

const SETTLE_MS = 500;
const RULES = {
  isTerminal: (item: string) => item === "finish",
  failure: (item: string) => item.startsWith("error"),
  errorItem: (error: Error) => `error: ${error.message}`,
};

const prefillScript = fc
  .tuple(
    fc.array(fc.constant<PrefillMove>("data"), { maxLength: 2 }),
    fc.constantFrom<PrefillMove[]>(
      ["end"],
      ["break"],
      ["error", "end"],
      ["finish error", "end"],
      ["cancelled", "break"],
      ["error", "data", "end"],
    ),
  )
  .map(([lead, ending]) => [...lead, ...ending]);

const decodeScript = fc.oneof(
  { weight: 1, arbitrary: fc.constant<DecodeMove[]>(["refuse"]) },
  {
    weight: 6,
    arbitrary: fc
      .tuple(
        fc.array(fc.constant<DecodeMove>("token"), { maxLength: 3 }),
        fc.constantFrom<DecodeMove[]>(["finish", "end"], ["finish"], ["end"], ["failed item", "end"], ["break"], []),
      )
      .map(([tokens, ending]): DecodeMove[] => ["open", ...tokens, ...ending]),
  },
);

const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom<Step>("prefill", "decode") },
    { weight: 5, arbitrary: fc.constant<Step>("turn") },
    { weight: 1, arbitrary: fc.constantFrom<Step>("clock", "leave") },
  ),
  { maxLength: 24 },
);

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function play(prefillMoves: PrefillMove[], decodeMoves: DecodeMove[], order: Step[]): Promise<void> {
  const ports = surroundings(SETTLE_MS);
  const guard = new CountingGuard();
  const prefill = new HandMade<PrefillOutput>(bootstrap());
  const { completion } = await consumePrefillStream(prefill.stream, { ...ports, guard });
  const task = completion!;
  const decode = new HandMade<string>();
  const opening = Promise.withResolvers<ReadableStream<string>>();
  const cancelled: unknown[] = [];

  // The client: reads as fast as it can, from the moment it has a stream.
  const seen: string[] = [];
  let end: unknown;
  let left = false;
  let reader: ReadableStreamDefaultReader<string> | undefined;
  const forwarded = task.forwardDecode(
    () => opening.promise,
    (reason) => cancelled.push(reason),
    RULES,
  );
  async function client(): Promise<void> {
    try {
      reader = (await forwarded).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        seen.push(value);
      }
      end ??= "closed";
    } catch (error) {
      end = error;
    }
  }
  void client();

  let prefillEnded = false;
  let opened = false;
  let decodeOver = false;
  let tokens = 0;
  let finishedAt = Number.POSITIVE_INFINITY;
  let failureKnownBeforeSuccess = false;

  function prefillMove(): void {
    const move = prefillMoves.shift();
    if (move === "data") prefill.push(data({}));
    if (move === "error") prefill.push({ error: "worker text" });
    if (move === "finish error") prefill.push(data({ finishReason: { kind: "error", message: "worker text" } }));
    if (move === "cancelled") prefill.push(data({ finishReason: { kind: "cancelled" } }));
    if (move === "end") prefill.end();
    if (move === "break") prefill.fail(new Error("cut"));
    if (move === "end" || move === "break") prefillEnded = true;
  }

  function decodeMove(): void {
    const move = decodeMoves.shift();
    if (move === "open") {
      opened = true;
      opening.resolve(decode.stream);
    }
    if (move === "refuse") opening.reject(new Error("refused"));
    if (move === "token") decode.push(`token ${tokens++}`);
    if (move === "finish" || move === "end") finishedAt = Math.min(finishedAt, ports.clock.time);
    if (move === "finish") decode.push("finish");
    if (move === "failed item") decode.push("error: decode");
    if (move === "end" || move === "break") decodeOver = true;
    if (move === "end") decode.end();
    if (move === "break") decode.fail(new Error("decode cut"));
  }

  function checkNow(): void {
    // The guard stands for the stream, whatever became of decode and the client.
    expect(guard.released).toBe(prefillEnded ? 1 : 0);
    expect(prefill.cancelled).toEqual([]);
    const failed = task.outcome?.ok === false;
    const successOut = seen.includes("finish") || end === "closed";
    if (!failed && !left && opened && !(end instanceof Error)) {
      expect(seen.filter((item) => item.startsWith("token"))).toHaveLength(tokens);
    }
    if (!left && !failed && successOut && !seen.some(RULES.failure)) {
      expect(task.outcome !== null || ports.clock.time >= finishedAt + SETTLE_MS).toBe(true);
    }
    if (failed && !successOut && end === undefined) failureKnownBeforeSuccess = true;
    if (failureKnownBeforeSuccess) expect(seen).not.toContain("finish");
    // A failure has been told as soon as it was known, unless success was already out (by the clock).
    if (failed && !left && !seen.includes("finish")) expect(end).toBeDefined();
  }

  for (const step of [...order, ...prefillMoves.map((): Step => "prefill"), "turn" as const]) {
    if (step === "prefill") prefillMove();
    if (step === "decode") decodeMove();
    if (step === "clock") ports.clock.advance(SETTLE_MS);
    if (step === "leave" && reader !== undefined && !left) {
      left = true;
      await reader.cancel("left").catch(() => {});
    }
    if (step === "turn") {
      await turn();
      checkNow();
    }
  }
  while (decodeMoves.length > 0) {
    decodeMove();
    await turn();
    if (!left && end === undefined) expect(task.outcome?.ok === true || seen.includes("finish")).toBe(true);
  }

  await Promise.all(ports.background.tasks);
  expect(guard.released).toBe(1);
  expect(ports.background.faults).toEqual([]);
  expect(ports.clock.timers.size).toBe(0);
  expect(cancelled.length).toBeLessThanOrEqual(1);

  const failures = seen.filter(RULES.failure).length + (end instanceof Error ? 1 : 0);
  const successes = seen.filter(RULES.isTerminal).length;
  expect(failures).toBeLessThanOrEqual(1);
  expect(successes).toBeLessThanOrEqual(1);
  if (successes === 1) expect(failures).toBe(0);
  if (seen.some(RULES.failure)) expect(seen.findIndex(RULES.failure)).toBe(seen.length - 1);
  // Prefill's failure made decode useless exactly when the client was told of it, as an item or as the rejection.
  const told = end instanceof PrefillError || seen.some((item) => item.startsWith("error: Prefill"));
  if (!left) expect(cancelled).toHaveLength(told ? 1 : 0);
  if (cancelled.length === 1 && !left) {
    if (opened && !decodeOver) expect(decode.cancelled).toEqual(cancelled);
  }
  if (left && !decodeOver && !seen.some(RULES.failure)) expect(decode.cancelled).toHaveLength(1);
  if (!left && end === undefined) {
    // Only a decode that is silent under a good prefill (or after its success) may be open still.
    expect(task.outcome?.ok === true || successes === 1).toBe(true);
  }
}

test("in every interleaving of prefill, decode, clock and client there is one truth for the client and one release of the guard", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => {
    unhandled.push(reason);
  };
  process.on("unhandledRejection", note);
  try {
    await fc.assert(
      fc.asyncProperty(prefillScript, decodeScript, steps, (prefill, decode, order) =>
        play([...prefill], [...decode], order),
      ),
      { numRuns: 3000 },
    );
    expect(unhandled).toEqual([]);
  } finally {
    process.off("unhandledRejection", note);
  }
}, 20_000);
