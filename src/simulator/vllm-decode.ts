import { Refusal } from "./engine-error.ts";
import { isRecord, type JsonRecord } from "./json.ts";
import { PeerUnreachable } from "./remote-side-channel.ts";
import type { RoleCall } from "./role.ts";
import { type Ready, runGeneration } from "./run.ts";
import { type Script, silentScript } from "./script.ts";
import { computePrompts, die, type EngineState } from "./state.ts";
import { sleep, within } from "./time.ts";
import { blockSize, isRemotePrefill, type KvReference, pushName, readHandoff } from "./vllm-handoff.ts";

/** What a client reads when blocks could not be pulled; the reason stays in the engine's log. */
const pullFailed = "Internal server error";
const timedOut = Symbol("timed out");

/** vLLM as decode: pulls prefill's blocks, once, or computes the prompt itself where no hand-off came. */
export async function vllmDecode(call: RoleCall): Promise<Script> {
  const { state, request, ask, faults } = call;
  const params = ask.body.kv_transfer_params;
  const remote = isRemotePrefill(params) ? params : undefined;
  const pushed = remote !== undefined && state.connector !== "nixl";
  let reference: KvReference | undefined;

  if (remote !== undefined && !pushed) {
    reference = readHandoff(remote);
    const needed = Math.max(...ask.prompts.map((prompt) => Math.ceil(prompt.tokens / blockSize)));
    if (reference === undefined || reference.blocks < needed) {
      die(state);
      return silentScript("rst");
    }
    if (ask.inputLogprobs !== undefined) throw new Refusal(500, pullFailed);
  }

  async function ready(): Promise<Ready> {
    if (remote === undefined) {
      state.stats.local += 1;
      return withPoison(state, call, { cached: await computePrompts(state, ask, request.signal), garbage: "" });
    }
    const outcome = pushed ? await awaitPush(call, remote) : await pull(call, reference as KvReference);
    // Everything but the last prompt token came from outside.
    const cached = Math.max(0, (ask.prompts[0]?.tokens ?? 1) - 1);
    return withPoison(state, call, { cached, garbage: outcome });
  }

  return runGeneration({
    state,
    request,
    ask,
    faults,
    ready,
    headFirst: !pushed,
    inputLogprobs: remote === undefined,
    firstTokenMs: state.timing.itlMs,
  });
}

/** Wrong blocks stay in the prefix cache: every later answer to that prompt is wrong too. */
function withPoison(state: EngineState, call: RoleCall, ready: Ready): Ready {
  const key = call.ask.prompts.map((prompt) => prompt.hash).join();
  if (ready.garbage !== "") state.poisoned.add(key);
  else if (state.poisoned.has(key)) {
    state.stats.poisoned += 1;
    return { ...ready, garbage: "/poisoned" };
  }
  return ready;
}

/** Resolves to the garbage that came instead of the blocks, if any. */
async function pull(call: RoleCall, reference: KvReference): Promise<string> {
  const { state, request, ask } = call;
  const signal = AbortSignal.any([request.signal, state.life.signal]);
  try {
    const peer = state.fabric.dial(reference.host, reference.port);
    // Not bound to the client: once decode has the request, it reads and frees prefill's blocks even if the client leaves.
    const outcome = await peer.read(reference.requestId, reference.object, ask.prompts[0]?.hash ?? "");
    await sleep(state.clock, state.timing.transferMs, signal);
    switch (outcome) {
      case "ok":
        state.stats.pulled += 1;
        return "";
      case "reused":
        state.stats.reused += 1;
        return "/reused";
      case "late":
        state.stats.expired += 1;
        return "/expired";
      case "other-prompt":
        state.stats.mismatched += 1;
        return "/other prompt";
      default:
        state.stats.failedReads += 1;
        throw new Refusal(500, pullFailed);
    }
  } catch (error) {
    if (!(error instanceof PeerUnreachable)) throw error;
    await sleep(state.clock, state.timing.dialMs, signal);
    state.stats.failedReads += 1;
    throw new Refusal(500, pullFailed);
  }
}

/** Push connectors: waits for prefill's blocks, and is not told when they will not come. */
async function awaitPush(call: RoleCall, params: JsonRecord): Promise<string> {
  const { state, request, ask } = call;
  const address = pushAddress(call, params);
  const leaving = new AbortController();
  const signal = AbortSignal.any([request.signal, state.life.signal, leaving.signal]);
  try {
    const peer = state.fabric.dial(address.host, address.port);
    const waiting = peer.meet(address.room, ask.prompts[0]?.hash ?? "", signal);
    const outcome = await within(state.clock, state.timing.pairMs, waiting, timedOut);
    if (outcome === timedOut) {
      state.stats.pairTimeouts += 1;
      throw new Refusal(500, pullFailed);
    }
    if (outcome === "taken") throw new Refusal(500, pullFailed);
    if (outcome === "same") state.stats.pulled += 1;
    else state.stats.mismatched += 1;
    return outcome === "same" ? "" : "/other prompt";
  } catch (error) {
    if (!(error instanceof PeerUnreachable)) throw error;
    await sleep(state.clock, state.timing.dialMs, signal);
    state.stats.failedReads += 1;
    throw new Refusal(500, pullFailed);
  } finally {
    leaving.abort();
  }
}

function pushAddress(call: RoleCall, params: JsonRecord): { host: string; port: number; room: string } {
  const { state } = call;
  const engineId = params.remote_engine_id;
  if (state.connector === "mooncake") {
    const url = typeof params.remote_bootstrap_addr === "string" ? readUrl(params.remote_bootstrap_addr) : undefined;
    if (url === undefined || typeof params.transfer_id !== "string" || typeof engineId !== "string") {
      throw new Refusal(500, pullFailed);
    }
    return { host: url.hostname, port: Number(url.port), room: `${engineId}/${params.transfer_id}` };
  }
  const reference = isRecord(params) ? readHandoff({ ...params, remote_block_ids: [0] }) : undefined;
  if (reference === undefined) throw new Refusal(500, pullFailed);
  return { host: reference.host, port: reference.port, room: `${reference.engineId}/${pushName(call)}` };
}

function readUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}
