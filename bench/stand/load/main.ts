/** The load generator, a process of its own: argument is a plan as JSON; prints how many streams are open once a second, and the result at the end. */
import type { Kind, LoadPlan } from "../protocol.ts";
import { Client } from "./client.ts";
import { Tally } from "./tally.ts";

const WATCH_MS = 250;
const SCRAPE_MS = 1_000;

const plan = JSON.parse(process.argv[2] ?? "{}") as LoadPlan;
const tally = new Tally(plan);
const clients: Client[] = [];
const { promise: allFinished, resolve } = Promise.withResolvers<void>();

function startOne(kind: Kind, all: number): void {
  const id = clients.length;
  const client = new Client(tally, id, kind, oneFinished);
  clients.push(client);
  const wait = (plan.rampMs * id) / all;
  if (wait === 0) client.run();
  else setTimeout(() => client.run(), wait);
}

let running = 0;
function oneFinished(): void {
  if (--running === 0) resolve();
}

async function scrape(port: number, path: string): Promise<void> {
  const start = performance.now();
  const response = await fetch(`http://${plan.host}:${port}${path}`);
  await response.text();
  if (!response.ok) tally.fail(`${path}: status ${response.status}`);
  tally.scrapeUs.push((performance.now() - start) * 1000);
}

const extra = plan.extra?.clients ?? 0;
running = plan.clients + extra;
const all = running;
// Plain and special clients take turns, so that a ramp mixes them.
for (let id = 0; id < Math.max(plan.clients, extra); id++) {
  if (id < plan.clients) startOne("p", all);
  if (id < extra) startOne(plan.extra?.kind ?? "p", all);
}
const watching = setInterval(() => {
  const now = performance.now();
  for (const client of clients) client.watch(now);
}, WATCH_MS);
const telling = setInterval(
  () => console.log(JSON.stringify({ open: tally.openStreams, errors: tally.errors })),
  SCRAPE_MS,
);
const { scrape: target } = plan;
const scraping = target === undefined ? undefined : setInterval(() => void scrape(target.port, target.path), SCRAPE_MS);
await allFinished;
clearInterval(watching);
clearInterval(telling);
clearInterval(scraping);
console.log(JSON.stringify({ result: tally.result() }));
process.exit(0);
