import type { ErrorCode, Stage } from "../errors/failure.ts";
import type { WorkerInfo } from "../fleet/worker-info.ts";
import { ERRORS } from "./errors.ts";
import { flag, list, object, ref, type Schema, text, whole } from "./schema.ts";

const STAGES = ["router", "prefill", "handoff", "decode"] as const satisfies readonly Stage[];
const CODES = Object.keys(ERRORS) as ErrorCode[];

const worker: Readonly<Record<keyof WorkerInfo, Schema>> = {
  id: text("The same as `name`."),
  url: text(),
  model_id: text(),
  worker_type: { type: "string", enum: ["regular", "prefill", "decode"] },
  is_healthy: flag(),
  load: whole("Requests it has in hand."),
  connection_mode: { type: "string", const: "http" },
  runtime_type: { type: "string", enum: ["sglang", "vllm", "trtllm", "openai"] },
  bootstrap_port: whole("The port in use, wherever it is known from."),
  dp_size: whole(),
  name: text(),
  pool: text(),
  weight: { type: "number" },
  origin: { type: "string", enum: ["config", "api", "dns"], description: "How it came in." },
  usable: flag("A request may be sent to it now."),
  draining: flag(),
  breaker: { type: "string", enum: ["closed", "open", "half-open"] },
  queued_tokens: whole("Prompt tokens still to be computed, estimated."),
  avoided_for_ms: whole("It has asked to be left alone for so long; 0 = it has not."),
  probed_ago_ms: { type: ["integer", "null"], description: "Since the last health probe." },
  problems: list(text(), "Where the engine contradicts the configuration."),
};

/** Schemas that several operations share, but the body of `POST /workers`, which comes from the router's own check. */
export const schemas: Readonly<Record<string, Schema>> = {
  ErrorCode: { type: "string", enum: CODES, description: "The router's own stable codes." },
  Error: object({
    error: object({
      message: text("Never empty, at most 8 KiB. An engine's own words where it had any."),
      type: text("An engine's own type, or `invalid_request_error`, `authentication_error`, …"),
      code: { type: ["string", "integer", "null"], description: "An engine's own code, or the router's." },
      param: { type: ["string", "null"], description: "The member that is wrong." },
      stage: { type: "string", enum: STAGES, description: "Where in its walk the request failed." },
    }),
  }),
  Model: {
    ...object({ id: text(), object: { type: "string", const: "model" } }, ["object"]),
    additionalProperties: true,
  },
  ModelList: object({ object: { type: "string", const: "list" }, data: list(ref("Model")) }),
  Readiness: object({
    status: { type: "string", enum: ["ready", "not ready", "shutting down"] },
    models: {
      type: "object",
      additionalProperties: object({ ready: flag(), reason: text("Why not.") }, ["reason"]),
      description: "By model id.",
    },
  }),
  Worker: object(worker, ["bootstrap_port", "dp_size"]),
  WorkerList: object({
    workers: list(ref("Worker")),
    total: whole(),
    stats: object({
      total_workers: whole(),
      healthy_workers: whole(),
      total_models: whole(),
      total_load: whole(),
      by_type: object({ regular: whole(), prefill: whole(), decode: whole() }),
    }),
  }),
};
