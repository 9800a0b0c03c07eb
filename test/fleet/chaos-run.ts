/**
 * The chaos of chaos.test.ts, in a process of its own: only the real environment variable lets Bun run more than 256 outgoing requests.
 * Engines, router and clients are three parties on real sockets. Prints what it saw as one line of JSON.
 */
import { parseConfig, resolveSecrets } from "../../src/config/load.ts";
import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import { type SimulatorServer, serveSimulator } from "../../src/runtime/simulator-tcp.ts";
import { createSimulatedEngine, type SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import type { SimulatedRole } from "../../src/simulator/options.ts";
import { respond } from "../../src/simulator/play-response.ts";
import { seeded } from "../workers/fixtures.ts";

export interface ChaosReport {
  seconds: number;
  requests: number;
  peak: number;
  /** Whole and word for word what this prompt's answer is. */
  good: number;
  left: number;
  /** Streams that had begun on a worker that was killed, each ended by one error frame. */
  cut: number;
  /** Honest answers (504) to requests that a hanging worker had swallowed. */
  timedOut: number;
  /** Legs that workers had in hand when they were killed, and legs that were sent to one while it hung: nothing else may break. */
  killed: number;
  hung: number;
  /** Everything that is none of these, in words. */
  wrong: string[];
  events: string[];
  /** Lowest counter ever seen, and every counter that was not 0 at rest. */
  lowest: number;
  atRest: string[];
}

const CLIENTS = 500;
const ROUNDS = 6;
const THINK_MS = 150;
const ADMIN = "chaos-admin";
const TIMING = { prefillMsPerToken: 4, itlMs: 25, transferMs: 2 };

class Station {
  readonly name: string;
  readonly engine: SimulatedEngine;
  readonly role: SimulatedRole;
  readonly model: string;
  #server: SimulatorServer | undefined;
  url = "";
  #port = 0;

  constructor(name: string, role: SimulatedRole, engine: SimulatedEngine, model: string) {
    this.name = name;
    this.role = role;
    this.engine = engine;
    this.model = model;
  }

  async open(): Promise<void> {
    this.#server = await serveSimulator(this.engine, { port: this.#port });
    this.#port = this.#server.port;
    this.url = this.#server.url;
  }

  /** As a process that is gone: its connections are reset, what it held is lost. Returns the legs it had in hand. */
  async kill(): Promise<number> {
    const struck = this.engine.inFlight;
    const closed = this.#server?.close();
    this.engine.restart();
    await closed;
    return struck;
  }
}

const fabric = createFabric();
const stations: Station[] = [];
function station(name: string, engine: "sglang" | "vllm", role: SimulatedRole): Station {
  const model = engine === "sglang" ? "s" : "v";
  // Ports of side channels are names on a fabric of one process; nothing listens there.
  const sidePort = 9000 + stations.length;
  const made = createSimulatedEngine({ engine, role, model, fabric, sidePort, timing: TIMING, answerTokens: 12 });
  const it = new Station(name, role, made, model);
  stations.push(it);
  return it;
}

const sp = ["sp1", "sp2", "sp3"].map((name) => station(name, "sglang", "prefill"));
const sd = ["sd1", "sd2", "sd3"].map((name) => station(name, "sglang", "decode"));
const vp = ["vp1", "vp2", "vp3"].map((name) => station(name, "vllm", "prefill"));
const vd = ["vd1", "vd2", "vd3"].map((name) => station(name, "vllm", "decode"));
for (const it of stations) await it.open();

function configText(weight = 1): string {
  const list = (of: Station[]) => of.map(({ url, name }) => ({ url, name, weight }));
  return JSON.stringify({
    listen: { port: 0 },
    models: [
      { id: "s", pools: [{ name: "s", engine: "sglang", prefill: list(sp), decode: list(sd) }] },
      { id: "v", pools: [{ name: "v", engine: "vllm", prefill: list(vp), decode: list(vd) }] },
    ],
    auth: { adminKeyEnv: "ADMIN" },
    policy: { prefill: "least-load", decode: "least-load" },
    timeouts: { prefillMs: 5000, firstTokenMs: 5000, totalMs: 7000, idleMs: 5000, shutdownMs: 1000 },
    retries: { maxRetries: 5, budget: 0, backoffMs: 20, maxBackoffMs: 100 },
    breaker: { failures: 5, openMs: 300 },
    health: { intervalMs: 200, timeoutMs: 1500, failures: 1 },
    log: { level: "silent" },
  });
}

const config = parseConfig(configText());
const secrets = resolveSecrets(config, { ADMIN });
const router = createBunRouter({ config, secrets });
const server = serveBun(router);
const base = `http://127.0.0.1:${server.port}`;

const report: ChaosReport = {
  seconds: 0,
  requests: 0,
  peak: 0,
  good: 0,
  left: 0,
  cut: 0,
  timedOut: 0,
  killed: 0,
  hung: 0,
  wrong: [],
  events: [],
  lowest: 0,
  atRest: [],
};
const kills: { name: string; at: number }[] = [];
const random = seeded(20);
const startedAt = performance.now();

// Watching: no counter may ever be below 0.
const watching = setInterval(function watch(): void {
  report.peak = Math.max(report.peak, router.active());
  for (const { load } of router.services.fleet.workers())
    report.lowest = Math.min(report.lowest, load.requests, load.tokens);
}, 10);

// What each prompt's answer is, from an engine that nobody harms.
const reference = createSimulatedEngine({
  engine: "vllm",
  role: "aggregated",
  fabric: createFabric(),
  timing: { prefillMsPerToken: 0, itlMs: 0, transferMs: 0 },
  model: "any",
  answerTokens: 12,
});
const ask = respond(reference);

async function expected(content: string): Promise<string> {
  const response = await ask(
    new Request("http://reference/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "any", messages: [{ role: "user", content }] }),
    }),
  );
  const whole = (await response.json()) as { choices: { message: { content: string } }[] };
  return whole.choices[0]!.message.content;
}

async function client(number: number): Promise<void> {
  await Bun.sleep(random() * 500);
  for (let round = 0; round < ROUNDS; round++) {
    const content = `Question ${round} of client ${number}`;
    await Bun.sleep(random() * THINK_MS);
    report.requests += 1;
    try {
      await request(content, number % 2 === 0 ? "s" : "v", (number >> 1) % 2 === 0, number % 25 === 7);
    } catch (error) {
      report.wrong.push(`${content}: threw ${String(error)}`);
    }
  }
}

async function request(content: string, model: string, stream: boolean, leaves: boolean): Promise<void> {
  const controller = new AbortController();
  const since = performance.now();
  const response = await fetch(`${base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content }], stream }),
    signal: controller.signal,
  });
  if (response.status === 504) {
    report.timedOut += 1;
    await response.text();
    return;
  }
  if (response.status !== 200) {
    report.wrong.push(`${content}: ${response.status} ${await response.text()}`);
    return;
  }
  if (!stream) {
    const whole = (await response.json()) as { choices: { message: { content: string }; finish_reason: string }[] };
    return judge(content, whole.choices[0]!.message.content, whole.choices[0]!.finish_reason);
  }
  if (leaves) {
    const reader = response.body!.getReader();
    await reader.read();
    controller.abort();
    report.left += 1;
    return;
  }
  const workers = [response.headers.get("x-router-prefill"), response.headers.get("x-router-decode")];
  const body = await response.text();
  await judgeStream(
    content,
    body,
    kills.some(({ name, at }) => at >= since && workers.includes(name)),
  );
}

async function judge(content: string, text: string, finish: string | null): Promise<void> {
  const right = await expected(content);
  if (text === right && finish !== null) report.good += 1;
  else report.wrong.push(`${content}: "${text}" (${finish}) instead of "${right}"`);
}

/** `struck`: one of its workers was killed while it ran. */
async function judgeStream(content: string, body: string, struck: boolean): Promise<void> {
  const events = body.split("\n\n").filter((event) => event.startsWith("data: "));
  const datas = events.map((event) => event.slice("data: ".length));
  if (datas.pop() !== "[DONE]") return void report.wrong.push(`${content}: no end mark`);
  let text = "";
  let finish: string | null = null;
  let frames = 0;
  for (const data of datas) {
    const { choices, error } = JSON.parse(data);
    if (error !== undefined) frames += 1;
    text += choices?.[0]?.delta?.content ?? "";
    finish = choices?.[0]?.finish_reason ?? finish;
  }
  if (frames === 0) return judge(content, text, finish);
  const right = await expected(content);
  if (struck && frames === 1 && finish === null && text !== "" && right.startsWith(text)) report.cut += 1;
  else
    report.wrong.push(
      `${content}: struck ${struck}, ${frames} error frames, finish ${finish}, "${text}" of "${right}"`,
    );
}

async function admin(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(base + path, {
    method,
    headers: { authorization: `Bearer ${ADMIN}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const json = (await response.json()) as Record<string, unknown>;
  if (!response.ok) report.wrong.push(`${method} ${path}: ${response.status} ${JSON.stringify(json)}`);
  return json;
}

/** Dies with all it has, and is back as another process on the same port a while later. */
async function killAndRestart(it: Station): Promise<void> {
  const struck = await it.kill();
  report.killed += struck;
  kills.push({ name: it.name, at: performance.now() });
  report.events.push(`kill ${it.name} with ${struck}`);
  await Bun.sleep(400);
  await it.open();
}

/** Takes requests and answers none of them for a while; its process lives, and its health route answers. */
async function hang(it: Station): Promise<void> {
  const before = it.engine.stats.requests;
  it.engine.setFaults(["hang"]);
  await Bun.sleep(150);
  it.engine.setFaults([]);
  const struck = it.engine.stats.requests - before;
  report.hung += struck;
  report.events.push(`hang ${it.name} with ${struck}`);
}

/** Drained by the admin, waited for, taken out, and let in again. Nothing of it may be noticed by any client. */
async function drainAndReplace(it: Station): Promise<void> {
  let told = await admin("POST", `/workers/${it.name}/drain`);
  report.events.push(`drain ${it.name} with ${told.in_flight}`);
  while (told.drained !== true && performance.now() - startedAt < 20_000) {
    await Bun.sleep(50);
    told = await admin("POST", `/workers/${it.name}/drain`);
  }
  const before = it.engine.stats.requests;
  await Bun.sleep(100);
  if (it.engine.stats.requests !== before || it.engine.inFlight !== 0) report.wrong.push(`${it.name} was not drained`);
  await admin("DELETE", `/workers/${it.name}`);
  await admin("POST", "/workers", {
    url: it.url,
    name: it.name,
    model_id: it.model,
    worker_type: it.role,
    ...(it.role === "prefill" && it.model === "s" && { bootstrap_port: it.engine.sidePort }),
  });
}

function reload(weight: number): void {
  const next = parseConfig(configText(weight));
  report.events.push(`reload ${router.control.reload(next, resolveSecrets(next, { ADMIN })).changed.join()}`);
}

async function chaos(): Promise<void> {
  // Until the engines have told their bootstrap ports.
  await Bun.sleep(300);
  const draining = [drainAndReplace(sd[2]!), drainAndReplace(vp[2]!)];
  await killAndRestart(sd[0]!);
  await killAndRestart(vd[0]!);
  await hang(vp[0]!);
  reload(2);
  await killAndRestart(sp[0]!);
  await killAndRestart(vp[1]!);
  await hang(sd[1]!);
  await Promise.all(draining);
  await Promise.all([drainAndReplace(vd[2]!), killAndRestart(sd[0]!)]);
  reload(1);
}

await router.control.tend();
await Promise.all([chaos(), ...Array.from({ length: CLIENTS }, (_, number) => client(number))]);
// Tails and cancelled legs end on their own, soon.
const restBy = performance.now() + 3_000;
while (atRest().length > 0 && performance.now() < restBy) await Bun.sleep(20);
report.atRest = atRest();
clearInterval(watching);
report.seconds = (performance.now() - startedAt) / 1000;
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));

function atRest(): string[] {
  const left: string[] = [];
  const note = (what: string, count: number): void => {
    if (count !== 0) left.push(`${what}: ${count}`);
  };
  for (const { name, load } of router.services.fleet.workers()) {
    note(`requests of ${name}`, load.requests);
    note(`tokens of ${name}`, load.tokens);
  }
  for (const { name, engine } of stations) note(`legs on ${name}`, engine.inFlight);
  note("requests in the router", router.active());
  const metrics = router.telemetry.metrics.render();
  for (const gauge of ["requests_in_progress", "queue_length", "drains_open"]) {
    note(gauge, Number(new RegExp(`^prefill_router_${gauge} (.+)$`, "m").exec(metrics)?.[1]));
  }
  for (const [, labels, value] of metrics.matchAll(/^prefill_router_worker_in_flight\{(.+)\} (.+)$/gm)) {
    note(`in flight ${labels}`, Number(value));
  }
  return left;
}
