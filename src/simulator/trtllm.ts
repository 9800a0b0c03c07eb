import { Refusal } from "./engine-error.ts";
import type { Sample } from "./generate.ts";
import { canonical, integerText, isRecord, type Json, type JsonRecord, parseJson, Raw } from "./json.ts";
import { makePrompt, type Prompt, promptIds, readIds } from "./prompt.ts";
import { PeerUnreachable } from "./remote-side-channel.ts";
import { oneToken, type RoleCall } from "./role.ts";
import { findFault, type Ready, runGeneration } from "./run.ts";
import type { Script } from "./script.ts";
import { computePrompts } from "./state.ts";
import { sleep } from "./time.ts";
import { detokenize } from "./vocabulary.ts";

/** Ids as after six days of uptime: no JavaScript number holds them. */
let nextContextId = 2n ** 61n + 1n;

/** TensorRT-LLM context worker: the first token and, beside it, everything the generation worker needs. */
export async function trtllmContext(call: RoleCall): Promise<Script> {
  const { state, request, ask: asked, faults } = call;
  const params = asked.body.disaggregated_params;
  if (!isRecord(params) || params.request_type !== "context_only") {
    throw new Refusal(400, "A context worker needs disaggregated_params.request_type context_only");
  }
  if (asked.stream) throw new Refusal(400, "Context-only requests cannot stream");
  if (asked.n > 1 || asked.batch) throw new Refusal(400, "Disaggregated serving takes one prompt and one choice");
  const sent = params.disagg_request_id;
  if (sent !== undefined && sent !== null && integerText(sent) === undefined) {
    throw new Refusal(400, "disagg_request_id must be an integer");
  }
  // The client's own limit and stops stay: they decide whether there is anything left to generate.
  const ask = oneToken(asked);

  async function ready(): Promise<Ready> {
    return { cached: await computePrompts(state, ask, request.signal), garbage: "" };
  }

  function decorate(whole: JsonRecord, samples: readonly Sample[]): JsonRecord {
    const prompt = ask.prompts[0];
    const sample = samples[0];
    const choice = Array.isArray(whole.choices) ? whole.choices[0] : undefined;
    if (prompt === undefined || sample === undefined || !isRecord(choice as Json)) return whole;
    const finish = sample.finish === "length" && asked.maxTokens !== 1 ? "not_finished" : sample.finish;
    const handoff = new Raw(faultyParams(call) ?? lend(call, sample, integerText(sent)));
    const decorated: JsonRecord = { ...(choice as JsonRecord), finish_reason: finish, disaggregated_params: handoff };
    return { ...whole, choices: [decorated], prompt_token_ids: promptIds(prompt) };
  }

  return runGeneration({
    state,
    request,
    ask,
    faults,
    ready,
    headFirst: false,
    inputLogprobs: true,
    firstTokenMs: 0,
    decorate,
  });
}

function lend(call: RoleCall, sample: Sample, disaggId: string | undefined): string {
  const { state } = call;
  const id = String(nextContextId);
  nextContextId += 2n;
  const opaque = btoa(JSON.stringify({ host: state.sideHost, port: state.sidePort, id }));
  const members = [
    '"request_type":"context_only"',
    `"first_gen_tokens":[${sample.tokens.map((token) => token.id).join(",")}]`,
    `"ctx_request_id":${id}`,
    `"disagg_request_id":${disaggId ?? id}`,
    `"encoded_opaque_state":"${opaque}"`,
    '"draft_tokens":null',
    '"ctx_dp_rank":0',
  ];
  const text = `{${members.join(",")}}`;
  state.side?.grant(id, canonical(parseJson(text)), sample.prompt.hash, state.timing.leaseMs);
  return text;
}

function faultyParams(call: RoleCall): string | undefined {
  if (findFault(call, "null-handoff") !== undefined) return "null";
  if (findFault(call, "empty-handoff") !== undefined) return "{}";
  if (findFault(call, "bad-handoff") === undefined) return undefined;
  return '{"request_type":"context_only","first_gen_tokens":[],"ctx_request_id":null,"disagg_request_id":null,"encoded_opaque_state":null}';
}

/** TensorRT-LLM generation worker: takes the context's parameters back and goes on after its token. */
export async function trtllmGeneration(call: RoleCall): Promise<Script> {
  const { state, request, ask: asked, faults } = call;
  const params = asked.body.disaggregated_params;
  if (!isRecord(params) || params.request_type !== "generation_only") {
    throw new Refusal(400, "A generation worker needs disaggregated_params.request_type generation_only");
  }
  if (asked.n > 1 || asked.batch) throw new Refusal(400, "Disaggregated serving takes one prompt and one choice");
  const id = integerText(params.ctx_request_id);
  const address = readOpaqueState(params.encoded_opaque_state);
  if (id === undefined || address === undefined || address.id !== id) {
    throw new Refusal(500, "Generation request has no usable context state");
  }
  // The prompt is the context's own tokens where they came along; the ones of the text otherwise.
  const ids = readIds(asked.body.prompt_token_ids);
  const own = asked.prompts[0];
  const ask = ids === undefined || own === undefined ? asked : { ...asked, prompts: [withText(own, detokenize(ids))] };

  async function ready(): Promise<Ready> {
    const { ctx_usage: _usage, ...rest } = params as JsonRecord;
    const object = canonical({ ...rest, request_type: "context_only" });
    const signal = AbortSignal.any([request.signal, state.life.signal]);
    try {
      const peer = state.fabric.dial(address?.host ?? "", address?.port ?? 0);
      const outcome = await peer.read(id as string, object, ask.prompts[0]?.hash ?? "");
      await sleep(state.clock, state.timing.transferMs, signal);
      if (outcome === "ok") {
        state.stats.pulled += 1;
        return { cached: 0, garbage: "" };
      }
      if (outcome === "other-prompt") {
        state.stats.mismatched += 1;
        return { cached: 0, garbage: "/other prompt" };
      }
      if (outcome === "reused" || outcome === "late") {
        state.stats[outcome === "reused" ? "reused" : "expired"] += 1;
        return { cached: 0, garbage: `/${outcome}` };
      }
      state.stats.failedReads += 1;
      throw new Refusal(500, `KV cache of context request ${id} could not be received (${outcome})`);
    } catch (error) {
      if (!(error instanceof PeerUnreachable)) throw error;
      await sleep(state.clock, state.timing.dialMs, signal);
      state.stats.failedReads += 1;
      throw new Refusal(500, `KV cache of context request ${id} could not be received`);
    }
  }

  return runGeneration({
    state,
    request,
    ask,
    faults,
    ready,
    headFirst: true,
    inputLogprobs: false,
    firstTokenMs: 0,
  });
}

/** A chat's ids are the rendered chat; its images and what the user said last are still in the messages. */
function withText(own: Prompt, text: string): Prompt {
  if (text === own.text) return own;
  return makePrompt(text, own.lastUser === own.text ? text : own.lastUser);
}

function readOpaqueState(value: Json | undefined): { host: string; port: number; id: string } | undefined {
  if (typeof value !== "string") return undefined;
  try {
    const state = JSON.parse(atob(value)) as { host?: unknown; port?: unknown; id?: unknown };
    if (typeof state.host !== "string" || typeof state.port !== "number" || typeof state.id !== "string")
      return undefined;
    return { host: state.host, port: state.port, id: state.id };
  } catch {
    return undefined;
  }
}
