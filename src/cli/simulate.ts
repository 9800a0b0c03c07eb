import { deferred } from "../runtime/deferred.ts";
import { dialOverTcp } from "../runtime/simulator-dial.ts";
import { type SimulatorServer, serveHandler, serveSimulator } from "../runtime/simulator-tcp.ts";
import { createSimulatedEngine } from "../simulator/engine.ts";
import { createFabric } from "../simulator/fabric.ts";
import { faultHelp } from "../simulator/faults.ts";
import { readSimulateFlags, type SimulateFlags, UsageError } from "./simulate-flags.ts";

const help = `Usage: prefill-router simulate --engine sglang|vllm|trtllm|openai --role prefill|decode|aggregated [flags]

Runs one simulated engine. It answers as the real one does, refuses what the real one refuses, and its words are a
function of the prompt and the seed. Prefill and decode may be two processes: they meet over the bootstrap port.

  --port N                    port to listen on (0 = any)            --host HOST              127.0.0.1
  --model NAME                served name (demo-model)               --adapter NAME           further name (repeatable)
  --bootstrap-port N          SGLang and Mooncake 8998, vLLM 5600,   --bootstrap-host HOST    what hand-offs name
                              TensorRT-LLM 5700                      --engine-id ID           what nixl-push is told
  --connector NAME            vLLM: nixl | nixl-push | mooncake      --dp-size N              ranks to report
  --prefill-ms-per-token MS   0.1                                    --itl-ms MS              between tokens: 10
  --transfer-ms MS            KV transfer: 2                         --lease-ms MS            unread hand-offs: 30000
  --pair-ms MS                wait for the other leg: 300000         --dial-ms MS             prefill unreachable: 5000
  --answer-tokens N           length of an answer (8-32)             --max-model-len N        1048576
  --idle-close-ms MS          idle connections: 5000, 0 = never      --fault FAULT            repeatable, see below

In the last user message: [sim:tokens=5] length, [sim:think] reasoning, [sim:tool] a tool call.

${faultHelp}
`;

/**
 * The `simulate` subcommand: serves one engine until SIGINT or SIGTERM. Resolves to the exit code: 0 after a signal or
 * `--help`, 1 when a port cannot be had, 2 for bad usage. A dead engine is started again after three seconds, as a
 * supervisor would.
 */
export async function runSimulate(args: string[]): Promise<number> {
  let flags: SimulateFlags | "help";
  try {
    flags = readSimulateFlags(args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\nSee: prefill-router simulate --help\n`);
    return 2;
  }
  if (flags === "help") {
    process.stdout.write(help);
    return 0;
  }
  try {
    return await serve(flags);
  } catch (error) {
    process.stderr.write(`Cannot serve: ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}

const restartMs = 3000;

async function serve(flags: SimulateFlags): Promise<number> {
  const { port, host, idleCloseMs } = flags;
  const engine = createSimulatedEngine({ ...flags.engine, fabric: createFabric({ fetch: dialOverTcp }) });
  const side =
    engine.handleSide === undefined
      ? undefined
      : await serveHandler(engine.handleSide, { port: engine.sidePort, host, idleCloseMs });
  let server: SimulatorServer;
  try {
    server = await serveSimulator(engine, { port, host, idleCloseMs });
  } catch (error) {
    await side?.close();
    throw error;
  }
  process.stdout.write(`listening on ${server.url}\n`);

  const stopped = deferred<void>();
  engine.onDeath(function superviseEngine(): void {
    process.stderr.write("engine died of a malformed hand-off; starting again\n");
    setTimeout(startAgain, restartMs);
  });
  async function startAgain(): Promise<void> {
    engine.restart();
    try {
      server = await serveSimulator(engine, { port: server.port, host, idleCloseMs });
    } catch (error) {
      process.stderr.write(`Cannot serve again: ${error instanceof Error ? error.message : String(error)}\n`);
      stopped.resolve();
    }
  }
  process.once("SIGTERM", stopped.resolve);
  process.once("SIGINT", stopped.resolve);
  await stopped.promise;
  await server.close();
  await side?.close();
  return 0;
}
