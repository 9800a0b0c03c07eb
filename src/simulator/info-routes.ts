import { jsonScript, type Script } from "./script.ts";
import type { EngineState } from "./state.ts";

/** What the routes beside generation need to know of an engine's moment. */
export interface EngineMoment {
  running: number;
  /** Waiting for the other leg or for blocks: no load (wire: `num_requests_waiting` on decode). */
  healthStatus: number;
}

const version: Record<EngineState["engine"], string> = {
  sglang: "0.5.23",
  vllm: "0.32.0",
  trtllm: "1.2.0",
  openai: "1.0.0",
};

/** Answers the GET routes of an engine; undefined: it has no such route. */
export function infoRoute(state: EngineState, path: string, moment: EngineMoment): Script | undefined {
  if (path === "/health") return textScript(moment.healthStatus, "");
  if (path === "/v1/models") return jsonScript(200, JSON.stringify(listModels(state)));
  switch (state.engine) {
    case "sglang":
      return sglangRoute(state, path, moment);
    case "vllm":
      return vllmRoute(state, path, moment);
    case "trtllm":
      return trtllmRoute(path, moment);
    default:
      return undefined;
  }
}

function sglangRoute(state: EngineState, path: string, moment: EngineMoment): Script | undefined {
  if (path === "/ready" || path === "/health_generate") return textScript(moment.healthStatus, "");
  if (path === "/server_info" || path === "/get_server_info") return jsonScript(200, JSON.stringify(serverInfo(state)));
  if (path === "/model_info" || path === "/get_model_info") {
    return jsonScript(
      200,
      JSON.stringify({ model_path: state.model, tokenizer_path: state.model, is_generation: true }),
    );
  }
  if (path === "/v1/loads") {
    const loads = [];
    for (let rank = 0; rank < state.dpSize; rank++) {
      const running = Math.ceil((moment.running - rank) / state.dpSize);
      loads.push({ dp_rank: rank, num_running_reqs: running, num_waiting_reqs: 0, token_usage: usageOf(running) });
    }
    return jsonScript(200, JSON.stringify({ version: version.sglang, dp_rank_count: state.dpSize, loads }));
  }
  if (path === "/get_load") {
    const load = { dp_rank: 0, num_reqs: moment.running, num_waiting_reqs: 0, num_tokens: moment.running * 100 };
    return jsonScript(200, JSON.stringify([load]));
  }
  return undefined;
}

function serverInfo(state: EngineState): Record<string, unknown> {
  return {
    model_path: state.model,
    served_model_name: state.model,
    tp_size: 1,
    dp_size: state.dpSize,
    disaggregation_mode: state.role === "aggregated" ? "null" : state.role,
    disaggregation_bootstrap_port: state.sidePort,
    max_total_num_tokens: state.maxModelLen,
    version: version.sglang,
    internal_states: [],
  };
}

function vllmRoute(state: EngineState, path: string, moment: EngineMoment): Script | undefined {
  if (path === "/version") return jsonScript(200, JSON.stringify({ version: version.vllm }));
  if (path === "/ping") return textScript(moment.healthStatus, "");
  if (path === "/load") return jsonScript(200, JSON.stringify({ server_load: moment.running }));
  return path === "/metrics" ? textScript(200, vllmMetrics(state, moment)) : undefined;
}

function vllmMetrics(state: EngineState, moment: EngineMoment): string {
  const label = `engine="0",model_name="${state.model}"`;
  const { stats, side } = state;
  const gauges: [string, string, number][] = [
    ["gauge", `vllm:num_requests_running{${label}}`, moment.running],
    ["gauge", `vllm:num_requests_waiting{${label}}`, 0],
    ["gauge", `vllm:num_requests_waiting_by_reason{${label},reason="capacity"}`, 0],
    ["gauge", `vllm:kv_cache_usage_perc{${label}}`, usageOf(moment.running + (side?.heldGrants ?? 0))],
    ["counter", `vllm:request_success_total{${label},finished_reason="stop"}`, stats.requests - stats.aborts],
    ["counter", `vllm:nixl_num_kv_expired_reqs_total{${label}}`, side?.leakedGrants ?? 0],
    ["counter", `vllm:nixl_num_notifications_after_expiry_total{${label}}`, side?.stats.expired ?? 0],
    ["counter", `vllm:nixl_num_failed_transfers_total{${label}}`, stats.failedReads],
  ];
  const lines = gauges.map(([type, name, value]) => `# TYPE ${name.split("{")[0]} ${type}\n${name} ${value}`);
  return `${lines.join("\n")}\n`;
}

function trtllmRoute(path: string, moment: EngineMoment): Script | undefined {
  if (path === "/version") return jsonScript(200, JSON.stringify({ version: version.trtllm }));
  if (path !== "/metrics") return undefined;
  return jsonScript(200, JSON.stringify([{ iter: 0, numActiveRequests: moment.running }]));
}

function listModels(state: EngineState): Record<string, unknown> {
  const owner = state.engine === "trtllm" ? "tensorrt_llm" : state.engine;
  const data = [...state.names].map(function describe(id) {
    const parent = id === state.model ? null : state.model;
    return {
      id,
      object: "model",
      created: 0,
      owned_by: owner,
      root: state.model,
      parent,
      max_model_len: state.maxModelLen,
    };
  });
  return { object: "list", data };
}

/** Share of the KV cache in use, as if a hundred requests filled it. */
function usageOf(requests: number): number {
  return Math.min(1, requests / 100);
}

function textScript(status: number, text: string): Script {
  const length = String(new TextEncoder().encode(text).byteLength);
  return {
    status,
    headers: [
      ["content-type", "text/plain; charset=utf-8"],
      ["content-length", length],
    ],
    steps: text === "" ? [] : [{ bytes: text }],
    ending: "clean",
  };
}
