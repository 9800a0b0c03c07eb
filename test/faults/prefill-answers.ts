import type { Api } from "../../src/sse/api.ts";
import { answerBody } from "./streams.ts";

/** How a pool is served: the three split ones, and one worker alone. */
export type Mode = "sglang" | "vllm" | "trtllm" | "aggregated";

const KV =
  '{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3]],"remote_engine_id":"e-1","remote_request_id":"rr-1","remote_host":"127.0.0.1","remote_port":5701,"tp_size":1}';
const CTX =
  '{"request_type":"context_only","ctx_request_id":9223372036854775801,"disagg_request_id":9223372036854775802,"first_gen_tokens":[7]}';

/** What a prefill worker answers when nothing goes wrong. */
export function prefillAnswer(mode: Mode, api: Api): string {
  if (mode === "sglang") return answerBody(api);
  const head =
    mode === "vllm" ? `{"id":"p-1","kv_transfer_params":${KV}` : '{"id":"p-1","prompt_token_ids":[1,2,3],"usage":{}';
  switch (api) {
    case "messages":
      return `${head},"type":"message","content":[],"stop_reason":"max_tokens"}`;
    case "responses":
      return `${head},"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`;
    default: {
      const params = mode === "trtllm" ? `,"disaggregated_params":${CTX}` : "";
      return `${head},"choices":[{"index":0,"finish_reason":"length"${params}}]}`;
    }
  }
}

/** Content that no hand-off can be read from. */
export const unreadableAnswer = "<html>504 Gateway Time-out</html>";
