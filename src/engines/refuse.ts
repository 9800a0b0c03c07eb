import type { Failure } from "../errors/failure.ts";
import { rawValue } from "../json/member.ts";
import type { Api } from "../sse/api.ts";
import { asksFor } from "./asks.ts";
import type { GenerationRequest } from "./dialect.ts";
import { badRequest } from "./failures.ts";
import { refuseSequences } from "./sequences.ts";

/** What no engine can do under a split (contract section 3): an API it does not split, no prompt, the best of several, stored responses. */
export function refuseForAll(request: GenerationRequest, splits: ReadonlySet<Api>): Failure | undefined {
  if (!splits.has(request.api)) return refuseEndpoint(request);
  return refuseSequences(request) ?? refuseResponses(request);
}

export function refuseEndpoint({ path }: GenerationRequest): Failure {
  return badRequest("endpoint", `"${path}" is not available with separated prefill and decode on this engine`);
}

/** A 400 for one member that a split cannot honour. */
export function refuseMember(param: string): Failure {
  return badRequest(param, `"${param}" is not available with separated prefill and decode`);
}

/**
 * An earlier response is stored on one engine, which is not both of the two that would need it; a background response ends with
 * nobody holding the legs.
 */
function refuseResponses({ api, doc }: GenerationRequest): Failure | undefined {
  if (api !== "responses") return undefined;
  const previous = rawValue(doc, "previous_response_id");
  if (previous !== undefined && previous !== "null") return refuseMember("previous_response_id");
  return asksFor(doc, "background") ? refuseMember("background") : undefined;
}
