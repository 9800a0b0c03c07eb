import type { ChoiceInput } from "../../src/workers/policy.ts";
import { POPS } from "./places.ts";

/** One turn of a conversation, as a router gets it. */
export interface Turn {
  session: number;
  /** Point of presence where it comes in: a few conversations wander. */
  pop: number;
  promptTokens: number;
  answerTokens: number;
  /** Of the prompt: the system prompt, which many sessions have in common, and what the last turn had in all. */
  system: number;
  systemTokens: number;
  earlierTokens: number;
  input: ChoiceInput;
}

export interface Session {
  id: number;
  turns: number;
  turn: number;
  pop: number;
  system: number;
  tokens: number;
  text: string;
}

const CHARS_PER_TOKEN = 4;
const SYSTEMS = 24;
/** A day is this long here, so that it fits into minutes; engines and networks keep their own speed. */
export const DAY_MS = 480_000;

/** Conversations over a day: each place is busiest in its own evening, and sleeps at four in the morning. */
export class Workload {
  readonly #random: () => number;
  readonly #systems: { text: string; tokens: number }[];
  readonly #words: string;
  readonly #weights: number[];
  #sessions = 0;

  constructor(random: () => number) {
    this.#random = random;
    let words = "";
    // One long text, of which every conversation is a piece: to make a new one for each would be most of the simulation's work.
    while (words.length < 2_000_000) words += `${Math.floor(random() * 60_466_176).toString(36)} `;
    this.#words = words;
    this.#systems = Array.from({ length: SYSTEMS }, (_, n) => {
      const tokens = 300 + Math.floor(random() * 1_500);
      return { tokens, text: words.slice(n * 9_973, n * 9_973 + tokens * CHARS_PER_TOKEN) };
    });
    this.#weights = POPS.map(([, , , millions]) => millions);
  }

  /** Relative load of a point of presence at a time of the simulated day, 0.25 to 1. */
  static busy(pop: number, now: number): number {
    const hour = (now / DAY_MS) * 24 + POPS[pop]![2] / 15;
    return 0.625 + 0.375 * Math.cos(((hour - 16) / 24) * 2 * Math.PI);
  }

  /** Sum over all places of load times people: what the rate of new sessions is scaled by. */
  static worldBusy(now: number): number {
    let busy = 0;
    let people = 0;
    for (const [pop, [, , , millions]] of POPS.entries()) {
      busy += millions * Workload.busy(pop, now);
      people += millions;
    }
    return busy / people;
  }

  begin(now: number): Session {
    const random = this.#random;
    let total = 0;
    for (const [pop, weight] of this.#weights.entries()) total += weight * Workload.busy(pop, now);
    let point = random() * total;
    let pop = 0;
    while (pop < POPS.length - 1) {
      point -= this.#weights[pop]! * Workload.busy(pop, now);
      if (point < 0) break;
      pop += 1;
    }
    const system = Math.floor(random() ** 2 * SYSTEMS);
    const id = this.#sessions++;
    const turns = 1 + Math.floor(-Math.log(1 - random()) * 3.5);
    return { id, turns, turn: 0, pop, system, tokens: 0, text: "" };
  }

  next(session: Session): Turn {
    const random = this.#random;
    const { text: systemText, tokens: systemTokens } = this.#systems[session.system]!;
    const earlierTokens = session.tokens;
    const added = session.turn === 0 ? 150 + Math.floor(random() ** 3 * 12_000) : 60 + Math.floor(random() * 500);
    const start = Math.floor(random() * (this.#words.length - added * CHARS_PER_TOKEN));
    if (session.turn === 0) session.text = `${systemText} ${session.id} `;
    session.text += this.#words.slice(start, start + added * CHARS_PER_TOKEN);
    session.turn += 1;
    if (random() < 0.02) session.pop = Math.floor(random() * POPS.length);
    const prompt = session.text;
    const promptTokens = Math.floor(prompt.length / CHARS_PER_TOKEN);
    const answerTokens = 40 + Math.floor(-Math.log(1 - random()) * 160);
    session.tokens = promptTokens;
    session.text += this.#words.slice(0, answerTokens * CHARS_PER_TOKEN);
    const name = `session-${session.id}`;
    return {
      session: session.id,
      pop: session.pop,
      promptTokens,
      answerTokens,
      system: session.system,
      systemTokens,
      earlierTokens,
      input: { tokens: promptTokens, prompt: () => prompt, session: () => name },
    };
  }

  /** Until the client asks again, after its answer. */
  thinkMs(): number {
    return -Math.log(1 - this.#random()) * 15_000;
  }
}
