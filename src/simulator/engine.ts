import type { Api } from "../sse/api.ts";
import { aggregatedRole } from "./aggregated.ts";
import { generationPaths, readAsk } from "./ask.ts";
import { checkAsk, missingPrompt, readBody } from "./checks.ts";
import { errorScript, Refusal } from "./engine-error.ts";
import { strikeConnection } from "./fault-script.ts";
import { type Fault, FaultCounter, faultsOfHeaders, parseFault } from "./faults.ts";
import { infoRoute } from "./info-routes.ts";
import type { SimulatedEngineOptions } from "./options.ts";
import { isPoolingPath, poolingRoute } from "./pooling.ts";
import type { Role } from "./role.ts";
import { injected } from "./run.ts";
import { jsonScript, type Script, type SimRequest, silentScript } from "./script.ts";
import { sglangDecode, sglangPrefill } from "./sglang.ts";
import { sideChannelHandler } from "./side-channel-handler.ts";
import { createState, type EngineState, type EngineStats } from "./state.ts";
import { ClientLeft } from "./time.ts";
import { trtllmContext, trtllmGeneration } from "./trtllm.ts";
import { vllmDecode } from "./vllm-decode.ts";
import { vllmPrefill } from "./vllm-prefill.ts";

/** One request as it came in. */
export interface LogEntry {
  method: string;
  path: string;
  headers: Headers;
  /** Raw text, byte for byte. */
  body: string;
  /** Clock time of arrival. */
  at: number;
}

/** Log entries kept; older ones go. A simulator may run for days under load. */
const keptEntries = 10_000;

export interface SimulatedEngine {
  readonly options: SimulatedEngineOptions;
  readonly engineId: string;
  readonly sidePort: number;
  /** Answers one request. Never rejects. `request.signal` aborting is the client hanging up. */
  handle(request: SimRequest): Promise<Script>;
  /** Answers on the side channel's port; prefill engines only. */
  readonly handleSide: ((request: SimRequest) => Promise<Script>) | undefined;
  /** Everything that came in, oldest first; may be emptied by whoever reads it. */
  readonly log: LogEntry[];
  /** Generation requests that are not through yet. */
  readonly inFlight: number;
  readonly stats: EngineStats;
  /** Prefill engines: rooms, and hand-offs lent, held and leaked. */
  readonly side: EngineState["side"];
  /** Replaces the faults of every request. Throws on a notation that cannot be read. */
  setFaults(faults: readonly string[]): void;
  readonly dead: boolean;
  /** Called when the engine dies. Returns a function that takes the listener away. */
  onDeath(listener: () => void): () => void;
  /** A new process: alive, with empty caches; hand-offs of the old one cannot be read any more. */
  restart(): void;
}

/**
 * A simulated engine: answers as the real one does, and refuses what the real one refuses. Prefill and decode must
 * share a fabric (one process) or reach each other's side port (two processes). Nothing runs until a request comes.
 */
export function createSimulatedEngine(options: SimulatedEngineOptions): SimulatedEngine {
  const state = createState(options);
  const role = roleOf(state);
  const counter = new FaultCounter();
  const log: LogEntry[] = [];
  const deathListeners = new Set<() => void>();
  let standing = (options.faults ?? []).map(parseFault);
  let inFlight = 0;
  watchLife();

  function watchLife(): void {
    state.life.signal.addEventListener("abort", function announce() {
      for (const listener of [...deathListeners]) listener();
    });
  }

  async function handle(request: SimRequest): Promise<Script> {
    const { method, path, headers, body } = request;
    if (log.length >= keptEntries) log.splice(0, keptEntries / 10);
    log.push({ method, path, headers, body, at: state.clock.now() });
    if (state.life.signal.aborted) return silentScript("rst");
    const api = generationPaths[path];
    if (method === "POST" && api !== undefined && servesApi(state, api)) return handleGeneration(api, request);
    if (method === "POST" && isPoolingPath(path) && state.role === "aggregated") return handlePooling(request);
    const health = standing.find((fault) => fault.kind === "health");
    const moment = { running: inFlight, healthStatus: health === undefined ? 200 : (health.argument ?? 500) };
    const answer = method === "GET" ? infoRoute(state, path, moment) : undefined;
    return answer ?? jsonScript(404, '{"detail":"Not Found"}');
  }

  async function handleGeneration(api: Api, request: SimRequest): Promise<Script> {
    state.stats.requests += 1;
    inFlight += 1;
    let open = true;
    function settle(how: "sent" | "aborted"): void {
      if (!open) return;
      open = false;
      inFlight -= 1;
      if (how === "aborted") state.stats.aborts += 1;
    }
    request.signal.addEventListener("abort", () => settle("aborted"), { once: true });
    const script = await answerGeneration(api, request);
    script.onEnd = settle;
    if (request.signal.aborted) settle("aborted");
    return script;
  }

  async function answerGeneration(api: Api, request: SimRequest): Promise<Script> {
    try {
      const faults = readFaults(request);
      let work = (signal: AbortSignal): Promise<Script> => generateAnswer(api, { ...request, signal }, faults);
      for (const fault of faults) {
        const inner = work;
        work = (signal) => strikeConnection(fault, { ...request, signal }, state.clock, inner, refuse);
      }
      return await work(request.signal);
    } catch (error) {
      return failed(api, error);
    }

    function refuse(fault: Fault): Script {
      return errorScript(state.engine, api, injected(fault));
    }
  }

  function failed(api: Api | undefined, error: unknown): Script {
    if (error instanceof Refusal) return errorScript(state.engine, api, error.error);
    if (error instanceof ClientLeft) return silentScript("rst");
    const message = `Simulator fault: ${error instanceof Error ? error.message : String(error)}`;
    return errorScript(state.engine, api, { status: 500, message });
  }

  async function generateAnswer(api: Api, request: SimRequest, faults: Fault[]): Promise<Script> {
    const body = readBody(request.body);
    const ask = readAsk(api, body);
    if (ask === undefined) throw missingPrompt(request.path);
    checkAsk(state, ask);
    return role({ state, request, ask, faults });
  }

  function readFaults(request: SimRequest): Fault[] {
    let asked: Fault[];
    try {
      asked = faultsOfHeaders(request.headers, state.role);
    } catch (error) {
      throw new Refusal(400, error instanceof Error ? error.message : String(error));
    }
    return [...standing, ...asked].filter((fault) => fault.kind !== "health" && counter.strike(fault));
  }

  async function handlePooling(request: SimRequest): Promise<Script> {
    try {
      return poolingRoute(state, request.path, readBody(request.body));
    } catch (error) {
      return failed(undefined, error);
    }
  }

  return {
    options,
    engineId: state.engineId,
    sidePort: state.sidePort,
    handle,
    handleSide: state.side === undefined ? undefined : sideChannelHandler(state.side, { engineIds: [state.engineId] }),
    log,
    get inFlight() {
      return inFlight;
    },
    stats: state.stats,
    side: state.side,
    setFaults(faults) {
      standing = faults.map(parseFault);
    },
    get dead() {
      return state.life.signal.aborted;
    },
    onDeath(listener) {
      deathListeners.add(listener);
      return () => deathListeners.delete(listener);
    },
    restart() {
      state.life.abort();
      state.life = new AbortController();
      state.cache.clear();
      state.poisoned.clear();
      state.side?.forget();
      watchLife();
    },
  };
}

function roleOf(state: EngineState): Role {
  if (state.role === "aggregated") return aggregatedRole;
  const prefill = state.role === "prefill";
  switch (state.engine) {
    case "sglang":
      return prefill ? sglangPrefill : sglangDecode;
    case "vllm":
      return prefill ? vllmPrefill : vllmDecode;
    case "trtllm":
      return prefill ? trtllmContext : trtllmGeneration;
    default:
      throw new Error(`Expected role "aggregated" for engine "${state.engine}", got "${state.role}"`);
  }
}

function servesApi(state: EngineState, api: Api): boolean {
  if (api === "generate") return state.engine === "sglang";
  if (api === "messages") return state.engine === "sglang" || state.engine === "vllm";
  if (api === "responses") return state.engine !== "trtllm" || state.role === "aggregated";
  return true;
}
