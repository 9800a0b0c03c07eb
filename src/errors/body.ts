import type { Failure } from "./failure.ts";

/** The error object that clients see, in bodies as in frames (contract section 4). */
export interface ErrorBody {
  message: string;
  type: string;
  code: string | number | null;
  param: string | null;
  stage: string;
}

const MAX_MESSAGE_BYTES = 8192;

export function typeOfStatus(status: number): string {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
    case 405:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

/** `mask` hides configured keys; an engine may have echoed one, in its message or in what should be a name. */
export function errorBody(failure: Failure, mask: (text: string) => string): ErrorBody {
  const { engine } = failure;
  const message = bound(mask(engine?.message || failure.message)) || failure.message;
  return {
    message,
    type: engine?.type ? bound(mask(engine.type)) : typeOfStatus(failure.status),
    code: typeof engine?.code === "string" ? bound(mask(engine.code)) : (engine?.code ?? failure.code),
    param: typeof engine?.param === "string" ? bound(mask(engine.param)) : failure.param,
    stage: failure.stage,
  };
}

/** At most 8 KiB of UTF-8, never half a character. */
function bound(text: string): string {
  if (text.length * 3 <= MAX_MESSAGE_BYTES) return text;
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= MAX_MESSAGE_BYTES) return text;
  let end = MAX_MESSAGE_BYTES - 3;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return `${new TextDecoder().decode(bytes.subarray(0, end))}…`;
}
