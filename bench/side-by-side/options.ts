import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { SCENARIOS, type Scenario } from "./scenarios.ts";

const RESULTS = join(import.meta.dir, "..", "results");

export interface Options {
  only: readonly string[] | undefined;
  scenarios: readonly Scenario[];
  rounds: number;
  quick: boolean;
  saveBaseline: boolean;
  /** Folder for the raw results. */
  results: string;
  /** Another checkout of this router, with its dependencies, to be measured as "ours". */
  checkout: string | undefined;
}

export const HELP = `npm run bench -- [options]
  --only NAME,…         routers: direct, nginx, haproxy, naive-split, bare-split (only when named), ours, ours-vllm, sglang-router, smg, vllm-router
  --scenarios NAME,…    ${SCENARIOS.map(({ name }) => name).join(", ")}
  --rounds N            interleaved rounds, medians are shown (3)
  --quick               one round of short runs
  --ours FOLDER         another checkout of this router to be measured as "ours", for a comparison of two states
  --results FOLDER      where the raw results go (bench/results)
  --save-baseline       writes bench/baseline.json and the chart in docs/ too
Peers are looked for in PATH and in the folder that BENCH_PEERS names.`;

/** Throws with a sentence for a name that does not exist. */
export function readOptions(args: readonly string[]): Options | "help" {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string" },
      scenarios: { type: "string" },
      rounds: { type: "string" },
      quick: { type: "boolean", default: false },
      "save-baseline": { type: "boolean", default: false },
      ours: { type: "string" },
      results: { type: "string", default: RESULTS },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return "help";
  const names = values.scenarios?.split(",");
  for (const name of names ?? []) {
    if (!SCENARIOS.some((scenario) => scenario.name === name)) throw new Error(`There is no scenario "${name}"`);
  }
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  if (!(Number.isInteger(rounds) && rounds > 0)) throw new Error(`Expected --rounds above 0, got "${values.rounds}"`);
  return {
    only: values.only?.split(","),
    scenarios: SCENARIOS.filter(({ name }) => names?.includes(name) ?? true),
    rounds,
    quick: values.quick,
    saveBaseline: values["save-baseline"],
    results: resolve(values.results),
    checkout: values.ours === undefined ? undefined : resolve(values.ours),
  };
}
