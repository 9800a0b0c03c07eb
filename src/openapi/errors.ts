import type { ErrorCode } from "../errors/failure.ts";

/** Each of the router's codes with the statuses it comes with and when (contract section 4). */
export const ERRORS = {
  invalid_request: [[400], "Unreadable body, wrong shape, or a field the router cannot honour; `param` names it."],
  unauthorized: [[401], "No key, or one that is not known."],
  forbidden: [[403], "The key may not do that."],
  model_not_found: [[404], "Neither a model id, an alias nor an adapter."],
  not_found: [[404], "No such route, or no such worker."],
  method_not_allowed: [[405], "The route is there, the method is not; `allow` names those that are."],
  conflict: [[409], "The worker's name or address is taken."],
  body_too_large: [[413], "Over `limits.bodyBytes`."],
  unsupported_media_type: [[415], "Not JSON, or a compressed body."],
  rate_limited: [[429], "Over the key's limits; has `retry-after`."],
  router_overloaded: [[503], "Over `limits.concurrency`; has `retry-after`."],
  queue_timeout: [[503], "Waited longer than `limits.queueMs`; has `retry-after`."],
  shutting_down: [[503], "The router is going; has `retry-after`."],
  no_prefill_workers: [[503], "No prefill worker can take the request; has `retry-after`."],
  no_decode_workers: [[503], "No decode worker can take the request; has `retry-after`."],
  prefill_unreachable: [[502], "Prefill refused the connection, reset it, or cut it before an answer."],
  decode_unreachable: [[502], "Decode refused the connection, reset it, or cut it before an answer."],
  prefill_timeout: [[504], "Prefill's time limit."],
  decode_timeout: [[504], "Decode's time limit."],
  prefill_failed: [[502], "Prefill answered with an error (its own status is kept), or with an abort inside a 200."],
  decode_failed: [[502], "Decode answered with an error (its own status is kept), or with an abort inside a 200."],
  event_too_large: [[502], "An event over `limits.eventBytes`."],
  invalid_handoff: [[502], "Prefill answered with nothing that decode could use."],
  internal: [[500], "A fault of the router itself."],
} as const satisfies Record<ErrorCode, readonly [readonly number[], string]>;
