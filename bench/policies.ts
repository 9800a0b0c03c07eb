/**
 * How evenly the policies spread, how much of the prompts they let the engines reuse, and what one choice costs.
 * Run: bun bench/policies.ts. Deterministic but for the last two tables, which measure this machine.
 */
import { POLICY_NAMES, type PolicyName } from "../src/config/policies.ts";
import { choose } from "../src/workers/choose.ts";
import type { Lease } from "../src/workers/lease.ts";
import { createPolicy } from "../src/workers/policies/create.ts";
import { PrefixAware } from "../src/workers/policies/prefix-aware.ts";
import { PromptBlocks } from "../src/workers/policies/prompt-blocks.ts";
import type { ChoiceInput } from "../src/workers/policy.ts";
import { Pool } from "../src/workers/pool.ts";
import { conversations, makePool, replay, spread } from "../test/workers/simulation.ts";

const WORKERS = 64;

function printSpread(): void {
  console.log(
    `\nSpread of 20,000 requests over ${WORKERS} workers, 256 at once, each with its own session (ideal: 312.5 each)`,
  );
  const rows = POLICY_NAMES.map((policy) => {
    const result = spread(policy, { workers: WORKERS, requests: 20_000, concurrent: 256 });
    return {
      policy,
      least: result.least,
      most: result.most,
      "most / mean": result.mostToMean.toFixed(3),
      "deviation / mean": result.deviation.toFixed(3),
      "most at once": result.peak,
      "idle at full load": result.idle,
    };
  });
  console.table(rows);
}

function printReuse(): void {
  console.log(
    "\nMulti-turn trace: 400 conversations of 8 turns, 4 system prompts, 8 workers with a cache of 1.5 M characters each",
  );
  const rows = POLICY_NAMES.map((policy) => {
    const result = replay(policy, conversations({ count: 400, turns: 8, systems: 4, seed: 5 }), {
      workers: 8,
      cacheChars: 1_500_000,
    });
    return {
      policy,
      "reuse of prompts": `${(result.reuse * 100).toFixed(1)} %`,
      "requests, most / mean": result.requests.toFixed(3),
      "computed tokens, most / mean": result.computed.toFixed(3),
    };
  });
  console.table(rows);
  console.log(`(best possible reuse of this trace, one endless cache: ${(bound() * 100).toFixed(1)} %)`);
}

function bound(): number {
  const trace = conversations({ count: 400, turns: 8, systems: 4, seed: 5 });
  return replay("round-robin", trace, { workers: 1, cacheChars: Infinity }).reuse;
}

function chars(length: number, salt: number): string {
  let text = "";
  for (let n = 0; text.length < length; n++) text += `${(n * 7919 + salt * 104729).toString(36)} `;
  return text.slice(0, length);
}

function input(prompt: string, session: string): ChoiceInput {
  return { tokens: prompt.length / 4, prompt: () => prompt, session: () => session };
}

/** Nanoseconds per call, the best of five rounds. */
function measure(rounds: number, call: (n: number) => void): number {
  let best = Infinity;
  for (let n = 0; n < rounds; n++) call(n);
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    for (let n = 0; n < rounds; n++) call(n);
    best = Math.min(best, ((performance.now() - start) * 1e6) / rounds);
  }
  return best;
}

function choiceCost(policy: PolicyName, workers: number, inputs: readonly ChoiceInput[], rounds: number): number {
  const pool = makePool(workers, policy);
  const held: Lease[] = [];
  return measure(rounds, (n) => {
    held.push(choose(pool, "decode", inputs[n % inputs.length]!, { now: n / 10 })!);
    if (held.length > 2 * workers) held.shift()!.release();
  });
}

function printCost(): void {
  console.log("\nOne choice with its count of load and release, ns (prompts of 1,000 characters)");
  const inputs = Array.from({ length: 256 }, (_, n) => input(chars(1000, n), `session-${n}`));
  console.table(
    POLICY_NAMES.map((policy) => {
      const row: Record<string, string | number> = { policy };
      for (const workers of [2, 8, 64, 1000]) {
        row[`${workers} workers`] = Math.round(choiceCost(policy, workers, inputs, workers === 1000 ? 5000 : 20_000));
      }
      return row;
    }),
  );
}

function printHashing(): void {
  console.log(
    "\nprefix-aware by length of the prompt, µs: hashing alone, and a whole choice among 8 and 1,000 workers",
  );
  const blocks = new PromptBlocks();
  console.table(
    [200, 1000, 4096, 16_384, 65_536, 262_144].map((length) => {
      const prompts = Array.from({ length: 64 }, (_, n) => chars(length, n));
      const inputs = prompts.map((prompt, n) => input(prompt, `s${n}`));
      blocks.read(prompts[0]!, 1);
      return {
        characters: length,
        blocks: blocks.count,
        hashing: (measure(2000, (n) => blocks.read(prompts[n % 64]!, 1)) / 1000).toFixed(2),
        "8 workers": (choiceCost("prefix-aware", 8, inputs, 2000) / 1000).toFixed(2),
        "1000 workers": (choiceCost("prefix-aware", 1000, inputs, 2000) / 1000).toFixed(2),
      };
    }),
  );
}

function printMemory(): void {
  console.log("\nMemory of the prefix index (16 bytes a pair of block and worker, fixed from the first request)");
  console.table(
    [2, 8, 64, 1000].map((workers) => {
      const ports = { now: () => 0, random: () => 0.5 };
      const policy = new PrefixAware(ports);
      const other = createPolicy("least-load", ports);
      const policies = { prefill: policy, decode: policy, aggregated: other };
      const pool = new Pool("p", "m", "vllm", { cancel: "anytime" }, policies);
      for (const worker of makePool(workers, "least-load").decode) pool.set("decode").add(worker);
      for (let n = 0; n < 200; n++) choose(pool, "decode", input(chars(4096, n), "s"), { now: n })?.release();
      return { workers, "index, MB": (policy.bytes / 2 ** 20).toFixed(2) };
    }),
  );
}

printSpread();
printReuse();
printCost();
printHashing();
printMemory();
