import { parseArgs } from "node:util";
import { fuzz, runOne } from "./target.ts";
import { targets } from "./targets.ts";

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "5" }, target: { type: "string" }, seed: { type: "string" } },
});
const chosen = targets.filter(({ name }) => values.target === undefined || name === values.target);
if (chosen.length === 0) {
  console.error(`There is no target "${values.target}"; there are: ${targets.map(({ name }) => name).join(", ")}`);
  process.exit(2);
}
if (values.seed !== undefined) {
  // One input, as a failure told it.
  for (const target of chosen) await runOne(target, Number(values.seed));
} else {
  const end = performance.now() + Number(values.minutes) * 60_000;
  const first = Math.floor(Math.random() * 2 ** 31);
  const total = new Map<string, number>();
  while (performance.now() < end) {
    for (const target of chosen) {
      const done = total.get(target.name) ?? 0;
      const left = end - performance.now();
      if (left <= 0) break;
      const { runs } = await fuzz(target, Math.min(10_000, left), first + done);
      total.set(target.name, done + runs);
    }
    console.log([...total].map(([name, runs]) => `${name} ${runs}`).join(", "));
  }
}
process.exit(0);
