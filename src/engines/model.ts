import { hasMember } from "../json/member.ts";
import type { JsonObject } from "../json/scan.ts";
import { jsonString } from "../json/text.ts";
import type { GenerationRequest } from "./dialect.ts";

/** The engines' name for the model, as JSON text, where the client's body names it otherwise; a body without one gets none. */
export function engineModelOf({ engineModel, doc }: GenerationRequest): string | undefined {
  return engineModel !== undefined && hasMember(doc, "model") ? engineModel : undefined;
}

/** The client's own name for the model, as JSON text, where an answer names it otherwise. */
export function clientModelFor({ engineModel, model }: GenerationRequest, answer: JsonObject): string | undefined {
  return engineModel !== undefined && hasMember(answer, "model") ? jsonString(model) : undefined;
}
