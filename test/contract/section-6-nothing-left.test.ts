import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { handRouter, nixlAnswer, PREFILLED, settled } from "../attempt/hand-made.ts";
import type { HandRequest } from "../legs/hand-made.ts";
import { DONE, finish, ROLE, say } from "../relay/hand-made.ts";

/**
 * Whatever happens in whatever order: hours later no load, no timer, no open request and no request in progress is left, a client that
 * leaves costs no worker its good name, and what the client got is whole events with at most one error frame.
 */

const CTX =
  '{"prompt_token_ids":[1],"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}}],"usage":{}}';

const ALONE = {
  engine: "openai",
  prefill: [],
  decode: [],
  workers: ["w1", "w2"].map((name) => ({ name, url: `http://${name}:1` })),
};

type Step =
  | { what: "wait"; ms: number }
  | { what: "leave" }
  | { what: "shutdown" }
  | { what: "good" | "begin" | "more" | "finish" | "end"; at: number }
  | { what: "refuse" | "reset" | "cut" | "busy" | "bad" | "crash"; at: number };

// A buffered answer that ends without a word is one too.
const FAULTS = new Set(["refuse", "reset", "cut", "busy", "bad", "crash", "end"]);
const at = fc.nat(7);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ what: fc.constant("wait" as const), ms: fc.constantFrom(1, 60, 600, 3_000, 25_000) }),
  },
  {
    weight: 8,
    arbitrary: fc.record({ what: fc.constantFrom("good", "begin", "more", "finish", "end"), at }) as fc.Arbitrary<Step>,
  },
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constantFrom("refuse", "reset", "cut", "busy", "bad", "crash"),
      at,
    }) as fc.Arbitrary<Step>,
  },
  { weight: 2, arbitrary: fc.constant<Step>({ what: "leave" }) },
  { weight: 1, arbitrary: fc.constant<Step>({ what: "shutdown" }) },
);

const scene = fc.record({
  engine: fc.constantFrom("sglang", "vllm", "trtllm", "openai"),
  cancel: fc.constantFrom("anytime", "deferred"),
  stream: fc.boolean(),
  n: fc.constantFrom(1, 1, 1, 2),
  keepAliveMs: fc.constantFrom(0, 0, 100),
  lateFailure: fc.constantFrom("any", "definitive"),
  steps: fc.array(step, { maxLength: 14 }),
});

/** Requests whose answer is not over, as far as the engine is concerned. */
class Engines {
  readonly #heads = new Set<HandRequest>();
  readonly #over = new Set<HandRequest>();

  constructor(readonly engine: string) {}

  open(requests: readonly HandRequest[]): HandRequest[] {
    return requests.filter((request) => !request.closed && !this.#over.has(request));
  }

  play(request: HandRequest, what: string, stream: boolean): void {
    const prefill = new URL(request.url).hostname.startsWith("p");
    const begun = this.#heads.has(request);
    const buffered = prefill || !stream || request.body.includes('"stream":false');
    switch (what) {
      case "good":
        if (begun || !buffered) return;
        this.#over.add(request);
        if (!prefill) request.json({ choices: [] });
        else if (this.engine === "vllm") request.whole(nixlAnswer());
        else if (this.engine === "trtllm") request.whole(CTX);
        else request.json(PREFILLED);
        return;
      case "begin":
        if (begun) return;
        this.#heads.add(request);
        request.head(buffered ? { "content-type": "application/json" } : {});
        return;
      case "more":
      case "finish":
        if (begun && !buffered) request.push(what === "more" ? say("x") : finish());
        else if (begun) request.push(" ");
        return;
      case "end":
        if (!begun) return;
        this.#over.add(request);
        if (!buffered) request.push(DONE);
        request.end();
        return;
      case "cut":
        if (!begun) return;
        this.#over.add(request);
        request.cut();
        return;
      case "refuse":
      case "reset":
        if (begun) return;
        this.#over.add(request);
        request[what]();
        return;
      default:
        if (begun) return;
        this.#over.add(request);
        request.json({ error: { message: "x" } }, what === "busy" ? 503 : what === "bad" ? 400 : 500);
    }
  }
}

describe("nothing is left behind", () => {
  test("by any request, however it goes", async () => {
    await fc.assert(
      fc.asyncProperty(scene, async ({ engine, cancel, stream, n, keepAliveMs, lateFailure, steps }) => {
        const lab = handRouter(engine === "openai" ? ALONE : { engine, cancel }, {
          lateFailure,
          timeouts: { keepAliveMs, prefillMs: 40_000, firstTokenMs: 40_000, totalMs: 50_000 },
          breaker: { failures: 99 },
        });
        const { transport, clock, router } = lab;
        const engines = new Engines(engine);
        const path = engine === "openai" && cancel === "deferred" ? "/v1/embeddings" : "/v1/chat/completions";
        const { response, leave } = lab.ask({ stream, n }, { path });
        let text = "";
        let ended = false;
        const reading = response.then(async (got) => {
          text = await got.text().catch(() => "left");
          ended = true;
        });
        const names = engine === "openai" ? ["w1", "w2"] : ["p1", "p2", "d1", "d2"];
        let left = false;
        let down: Promise<void> | undefined;
        let faults = 0;
        await settled();
        for (const step of steps) {
          if (step.what === "wait") await clock.advance(step.ms);
          else if (step.what === "leave") {
            left = true;
            leave();
          } else if (step.what === "shutdown") down ??= router.shutdown(1_000);
          else {
            const open = engines.open(transport.requests);
            if (open.length === 0) continue;
            if (FAULTS.has(step.what)) faults++;
            engines.play(open[step.at % open.length]!, step.what, stream);
          }
          await settled();
        }
        const waited = steps.reduce((sum, step) => sum + (step.what === "wait" ? step.ms : 0), 0);
        const blamed = () => names.reduce((sum, name) => sum + lab.blamed(name), 0);
        const before = blamed();
        if (!left) leave();
        await settled();
        await clock.advance(7_200_000);
        await down;
        await reading;
        expect({ load: lab.load(), active: router.active(), timers: clock.timers.size, ended }).toEqual({
          load: 0,
          active: 0,
          timers: 0,
          ended: true,
        });
        // What the router holds open, nobody else will ever close.
        expect(engines.open(transport.requests).length).toBe(0);
        if (faults === 0 && waited < 40_000) expect(before).toBe(0);
        expect(blamed()).toBeLessThanOrEqual(before + (faults > 0 ? 1 : 0));
        expect(text.match(/"error":/g)?.length ?? 0).toBeLessThanOrEqual(1);
        if (text.includes('"error":') && text.startsWith("data:")) expect(text).toEndWith(DONE);
      }),
      { numRuns: 400 },
    );
  }, 30_000);

  test("the engine player itself plays whole answers", async () => {
    const lab = handRouter({ engine: "sglang" });
    const engines = new Engines("sglang");
    const { response } = lab.ask();
    await settled();
    for (const [index, what] of [
      [0, "good"],
      [0, "begin"],
      [0, "more"],
      [0, "finish"],
      [0, "end"],
    ] as const) {
      engines.play(engines.open(lab.transport.requests)[index]!, what, true);
      await settled();
    }
    expect(await (await response).text()).toBe([say("x"), finish(), DONE].join(""));
    expect(ROLE).toContain("assistant");
  });
});
