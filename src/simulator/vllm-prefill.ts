import { canonical, isRecord, type JsonRecord, parseJson, Raw } from "./json.ts";
import type { RoleCall } from "./role.ts";
import { findFault, type Ready, runGeneration } from "./run.ts";
import type { Script } from "./script.ts";
import { computePrompts } from "./state.ts";
import { sleep } from "./time.ts";
import { makeHandoff, pushName } from "./vllm-handoff.ts";

/**
 * vLLM as prefill: an ordinary server that keeps the blocks of a request with `do_remote_decode` and says in its
 * complete answer where they are. It takes time for every token it is allowed, so the router must ask for one.
 */
export async function vllmPrefill(call: RoleCall): Promise<Script> {
  const { state, request, ask, faults } = call;
  const params = ask.body.kv_transfer_params;
  const remote = isRecord(params) && params.do_remote_decode === true;

  async function ready(): Promise<Ready> {
    const cached = await computePrompts(state, ask, request.signal);
    if (remote && state.connector !== "nixl") void push(call, params).catch(ignore);
    return { cached, garbage: "" };
  }

  function decorate(whole: JsonRecord, _samples: unknown, { cached }: Ready): JsonRecord {
    if (!remote || state.connector !== "nixl") return { ...whole, kv_transfer_params: null };
    return { ...whole, kv_transfer_params: new Raw(faultyHandoff(call) ?? lend(call, cached)) };
  }

  return runGeneration({
    state,
    request,
    ask,
    faults,
    ready,
    headFirst: true,
    inputLogprobs: true,
    firstTokenMs: 0,
    decorate,
  });
}

/** Lends the blocks for the length of the lease; resolves to the hand-off's text. */
function lend(call: RoleCall, cached: number): string {
  const { state, request, ask } = call;
  const prompt = ask.prompts[0];
  if (prompt === undefined) return "null";
  let text = "null";
  // Each sample and each prompt keeps blocks of its own, but the answer names one: the rest leak.
  for (let sample = 0; sample < ask.n * ask.prompts.length; sample++) {
    const requestId = `chatcmpl-${request.headers.get("x-request-id") ?? crypto.randomUUID()}-${shortId()}`;
    const expiresAt = state.clock.now() + state.timing.leaseMs;
    const from = { engineId: state.engineId, requestId, host: state.sideHost, port: state.sidePort, cached, expiresAt };
    const handoff = makeHandoff(from, prompt);
    state.side?.grant(requestId, canonical(parseJson(handoff)), prompt.hash, state.timing.leaseMs);
    if (sample === 0) text = handoff;
  }
  return text;
}

function shortId(): string {
  return crypto.randomUUID().slice(0, 8);
}

function faultyHandoff(call: RoleCall): string | undefined {
  if (findFault(call, "null-handoff") !== undefined) return "null";
  if (findFault(call, "empty-handoff") !== undefined) return "{}";
  if (findFault(call, "bad-handoff") === undefined) return undefined;
  return JSON.stringify({
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_block_ids: [[]],
    remote_engine_id: call.state.engineId,
    remote_request_id: null,
    remote_host: call.state.sideHost,
    remote_port: call.state.sidePort,
  });
}

/** Push connectors: the blocks wait for decode to come and ask, whether or not this request is still open. */
async function push(call: RoleCall, params: JsonRecord): Promise<void> {
  const { state, ask } = call;
  const named = state.connector === "mooncake" ? params.transfer_id : pushName(call);
  const prompt = ask.prompts[0];
  if (typeof named !== "string" || prompt === undefined || state.side === undefined) return;
  const waiting = new AbortController();
  const takeBack = state.clock.after(state.timing.leaseMs, () => waiting.abort());
  const signal = AbortSignal.any([waiting.signal, state.life.signal]);
  try {
    const move = await state.side.offer(`${state.engineId}/${named}`, prompt.hash, signal);
    await sleep(state.clock, state.timing.transferMs, signal);
    move?.();
  } finally {
    takeBack();
  }
}

function ignore(): void {}
