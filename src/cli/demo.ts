import { parseConfig, resolveSecrets } from "../config/load.ts";
import { deferred } from "../runtime/deferred.ts";
import type { RouterServer } from "../runtime/server.ts";
import { type SimulatorServer, serveSimulator } from "../runtime/simulator-tcp.ts";
import { createSimulatedEngine } from "../simulator/engine.ts";
import { createFabric } from "../simulator/fabric.ts";
import type { DemoArguments } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { printStream } from "./demo-answer.ts";
import type { Output } from "./output.ts";
import { runtimeHost } from "./runtime-host.ts";

const MODEL = "demo-model";
const QUESTION = "What runs under the bridge?";
const WORKERS = 2;
const FIRST_BOOTSTRAP_PORT = 8998;
/** Slow enough to be seen, quick enough not to bore: about twenty tokens a second, two seconds an answer. */
const TIMING = { prefillMsPerToken: 2, itlMs: 45, transferMs: 5 };
const ANSWER_TOKENS = 40;
/** Running answers get so long to end after Ctrl-C: each then has its error frame, nobody waits. */
const SHUTDOWN_MS = 200;
const DEFAULT_PORT = 8000;
/** Neighbouring ports are easy to remember; after these any free one will do. */
const NEIGHBOURS = 10;

/**
 * Simulated SGLang engines on real sockets, the router in front of them, one streamed answer to see it work; stays up until SIGINT
 * or SIGTERM. All in this process, loopback only. A port that is taken is replaced by another one, and said so.
 *
 * Resolves with exit code 0 after the signal, everything closed; 1 when no port can be had at all.
 */
export async function runDemo({ args, env, output }: CommandContext & { args: DemoArguments }): Promise<number> {
  const left = deferred<void>();
  process.once("SIGINT", left.resolve).once("SIGTERM", left.resolve);
  const engines: SimulatorServer[] = [];
  try {
    const pool = await startEngines(engines);
    const server = await startRouter(pool, args, env, output);
    const base = `http://${bracketed(server.hostname)}:${server.port}`;
    introduce(base, pool, output);
    await Promise.race([answerOne(base, output), left.promise]);
    output.line(output.paint.dim("\nStays up until Ctrl-C."));
    await left.promise;
    await server.router.shutdown(SHUTDOWN_MS);
    await server.stop(SHUTDOWN_MS);
    return 0;
  } catch (error) {
    if (!(error instanceof NoPort)) throw error;
    output.error(error.message);
    return 1;
  } finally {
    await Promise.all(engines.map((engine) => engine.close()));
  }
}

interface DemoPool {
  prefill: { name: string; url: string; bootstrapPort: number }[];
  decode: { name: string; url: string }[];
}

/** Two of each kind, so that one sees the choice. They share a fabric: KV blocks need no port of their own in one process. */
async function startEngines(engines: SimulatorServer[]): Promise<DemoPool> {
  const fabric = createFabric();
  const pool: DemoPool = { prefill: [], decode: [] };
  for (let index = 0; index < WORKERS; index++) {
    const common = { engine: "sglang", model: MODEL, fabric, timing: TIMING, answerTokens: ANSWER_TOKENS } as const;
    const bootstrapPort = FIRST_BOOTSTRAP_PORT + index;
    const prefill = await serveSimulator(
      createSimulatedEngine({ ...common, role: "prefill", sidePort: bootstrapPort }),
    );
    engines.push(prefill);
    pool.prefill.push({ name: `prefill-${index + 1}`, url: prefill.url, bootstrapPort });
    const decode = await serveSimulator(createSimulatedEngine({ ...common, role: "decode" }));
    engines.push(decode);
    pool.decode.push({ name: `decode-${index + 1}`, url: decode.url });
  }
  return pool;
}

/** No port of all that were tried can be listened on. */
class NoPort extends Error {
  override readonly name = "NoPort";
}

async function startRouter(
  pool: DemoPool,
  args: DemoArguments,
  env: CommandContext["env"],
  output: Output,
): Promise<RouterServer> {
  const runtime = await runtimeHost();
  const host = args.host ?? "127.0.0.1";
  const wanted = args.port ?? DEFAULT_PORT;
  let refusal: unknown;
  for (const port of portsFrom(wanted)) {
    const config = parseConfig(
      JSON.stringify({
        listen: { host, port },
        models: [{ id: MODEL, pools: [{ name: "demo", engine: "sglang", ...pool }] }],
        log: { level: "error" },
      }),
    );
    const router = runtime.createRouter({ config, secrets: resolveSecrets(config, env), sink: output.error });
    try {
      const server = await runtime.serve(router);
      if (port !== wanted) output.line(`Port ${wanted} is taken, so the router listens on ${server.port}.\n`);
      return server;
    } catch (error) {
      refusal = error;
    }
  }
  throw new NoPort(`cannot listen on ${host}: ${refusal instanceof Error ? refusal.message : String(refusal)}`);
}

function* portsFrom(wanted: number): Generator<number> {
  yield wanted;
  if (wanted === 0) return;
  for (let port = wanted + 1; port <= Math.min(wanted + NEIGHBOURS, 65_535); port++) yield port;
  yield 0;
}

function introduce(base: string, pool: DemoPool, { line, paint }: Output): void {
  line(paint.bold("prefill-router demo: two simulated SGLang prefill engines, two for decode, and the router"));
  for (const { name, url } of [...pool.prefill, ...pool.decode]) line(`  ${name.padEnd(10)} ${paint.dim(url)}`);
  line("");
  line(`  dashboard  ${base}/`);
  line(`  listening on ${base}`);
  line("");
  line("Ask it yourself:");
  line("");
  line(`  ${curl(base)}`);
  line("");
}

/** One line, so that it survives a terminal's copy and paste; `-N` shows the tokens as they come. */
function curl(base: string): string {
  const body = JSON.stringify({ model: MODEL, stream: true, messages: [{ role: "user", content: QUESTION }] });
  return `curl -N ${base}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`;
}

/** The same request, made here, so that the reader sees the router work before typing anything. */
async function answerOne(base: string, output: Output): Promise<void> {
  const started = performance.now();
  const response = await fetch(`${base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: MODEL,
      stream: true,
      messages: [{ role: "user", content: QUESTION }],
    }),
  });
  output.line(`${output.paint.dim("you   ")} ${QUESTION}`);
  await printStream(response, `${output.paint.dim("model ")}`, output);
  const ms = Math.round(performance.now() - started);
  const way = `${response.headers.get("x-router-prefill")} → ${response.headers.get("x-router-decode")}`;
  output.line(output.paint.dim(`       ${way}, ${ms} ms`));
}

function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
