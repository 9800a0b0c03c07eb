import type { Api } from "../../src/sse/api.ts";
import { type RawAnswer, RawClient } from "../../test/faults/raw-client.ts";
import { paths, requestBody } from "../../test/faults/streams.ts";
import type { ModelId } from "./stand.ts";

/** What became of one request. The last three are what a router must never do. */
export type Outcome = "answered" | "error status" | "error frame" | "hung up" | "lie" | "broken frame" | "hang";

export interface Visit {
  model: ModelId;
  api: Api;
  stream: boolean;
  /** Faults for the legs, in the simulator's notation. */
  faults: Record<string, string>;
  /** The client leaves after so long. */
  leavesAfterMs: number | undefined;
  /** The client stops reading that long, once it has the head. */
  restsMs: number;
}

const SPLIT: Readonly<Record<ModelId, readonly Api[]>> = {
  sglang: ["chat", "completions", "responses", "messages", "generate"],
  "sglang-deferred": ["chat", "generate"],
  vllm: ["chat", "completions", "responses", "messages"],
  trtllm: ["chat", "completions"],
  whole: ["chat"],
};

const PREFILL_FAULTS = [
  "status:500@60ms",
  "reset@60ms",
  "status:503*1",
  "abort:500",
  "hang@60ms",
  "error-json",
  "delay:400",
];
const DECODE_FAULTS = [
  "cut@3",
  "fin@3",
  "reset@2",
  "error-frame@3",
  "flat-error@2",
  "abort:500",
  "no-done",
  "no-finish",
  "silence@3",
  "status:500",
  "delay:300",
];

/** A number in [0, 1), the same row of them for the same seed: a soak that fails can be run again. */
export type Random = () => number;

export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return function mulberry() {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function pick<T>(from: readonly T[], random: Random): T {
  return from[Math.floor(random() * from.length)] as T;
}

/** One request of the mix: half of them plain, the others with a fault, a client that leaves, or one that reads slowly. */
export function nextVisit(random: Random): Visit {
  const dice = random();
  if (dice < 0.01) {
    return { model: "whole", api: "chat", stream: true, faults: {}, leavesAfterMs: undefined, restsMs: 1_500 };
  }
  const model = pick(["sglang", "sglang-deferred", "vllm", "trtllm"] as const, random);
  const visit: Visit = {
    model,
    api: pick(SPLIT[model], random),
    stream: random() < 0.75,
    faults: {},
    leavesAfterMs: undefined,
    restsMs: 0,
  };
  if (dice < 0.22) {
    const [header, faults] = random() < 0.5 ? ["x-sim-prefill", PREFILL_FAULTS] : ["x-sim-decode", DECODE_FAULTS];
    visit.faults = { [header as string]: pick(faults as string[], random) };
  } else if (dice < 0.37) visit.leavesAfterMs = random() * 400;
  else if (dice < 0.45) visit.restsMs = 200 + random() * 800;
  return visit;
}

/** Nothing may take longer than all limits together. */
const HANG_MS = 20_000;
const PROMPTS = 300;

/** Makes one request over a socket of its own and judges what came back. Never rejects. */
export async function visitOnce(
  port: number,
  visit: Visit,
  random: Random,
): Promise<{ outcome: Outcome; detail: string }> {
  const prompt = `Tell me about number ${Math.floor(random() * PROMPTS)}, please`;
  const client = new RawClient({
    port,
    path: paths[visit.api],
    body: requestBody(visit.api, visit.stream, prompt)
      .replace('"model":"m"', `"model":"${visit.model}"`)
      // The long answers are not cut to what the short ones ask for.
      .replace(visit.model === "whole" ? '"max_tokens":16,' : "", ""),
    headers: visit.faults,
  });
  if (visit.leavesAfterMs !== undefined) {
    await Bun.sleep(visit.leavesAfterMs);
    client.hangUp(random() < 0.5 ? "reset" : "close");
    return { outcome: "hung up", detail: "" };
  }
  if (visit.restsMs > 0) {
    await client.until(1);
    client.socket.pause();
    await Bun.sleep(visit.restsMs);
    client.socket.resume();
    // Looked at once it is over: a long answer that is looked at with each piece would keep the whole process busy.
    await Promise.race([client.until(Infinity), Bun.sleep(HANG_MS)]);
  }
  return judge(await client.answer(HANG_MS), visit);
}

function judge(answer: RawAnswer, visit: Visit): { outcome: Outcome; detail: string } {
  const text = answer.body.toString();
  const detail = `${visit.model} ${visit.api} ${JSON.stringify(visit.faults)} ${answer.status} ${answer.flaw} …${text.slice(-300)}`;
  if (answer.flaw.startsWith("still open")) return { outcome: "hang", detail };
  if (answer.flaw !== "" || !answer.whole) return { outcome: "broken frame", detail };
  const faulty = Object.keys(visit.faults).length > 0;
  if (answer.status !== 200) return { outcome: faulty || answer.status === 503 ? "error status" : "lie", detail };
  if (!visit.stream) return { outcome: text.includes('"error":{') ? "lie" : "answered", detail };
  const frames = text.match(/^(event: error|data: \{"error":)/gm)?.length ?? 0;
  if (frames > 1) return { outcome: "lie", detail };
  if (frames === 1) return { outcome: faulty ? "error frame" : "lie", detail };
  return { outcome: isFinished(text, visit.api) ? "answered" : "lie", detail };
}

/** The answer has its end mark, which is good for a finish too (contract section 5): a stream that just stops is what a client takes for success. */
function isFinished(text: string, api: Api): boolean {
  switch (api) {
    case "responses":
      return /^event: response\.(completed|incomplete)$/m.test(text);
    case "messages":
      return text.endsWith('data: {"type":"message_stop"}\n\n');
    default:
      return text.endsWith("data: [DONE]\n\n");
  }
}
