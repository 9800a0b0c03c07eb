import { toJsonSchema } from "@valibot/to-json-schema";
import { workerObject } from "../config/worker.ts";
import { IGNORED_MEMBERS, SETTING_OF_MEMBER, TEXT_MEMBERS } from "../fleet/join-body.ts";
import type { Schema } from "./schema.ts";

/**
 * The body of `POST /workers` from the schema that checks it, under the members' own names. For the build only: its converter is a
 * development dependency.
 */
export function joinSchema(): Schema {
  const { properties } = toJsonSchema(workerObject, {
    target: "draft-2020-12",
    typeMode: "input",
    // Checks written as functions have no counterpart; they only ever narrow what this schema takes.
    errorMode: "ignore",
  }) as { properties: Record<string, Schema> };
  const members: Record<string, Schema> = {};
  for (const [member, setting] of Object.entries(SETTING_OF_MEMBER)) members[member] = properties[setting]!;
  for (const member of TEXT_MEMBERS) members[member] = { type: "string", minLength: 1 };
  members.worker_type = { ...members.worker_type, enum: ["regular", "aggregated", "prefill", "decode"] };
  members.model_id = {
    ...members.model_id,
    description: "Absent: the only model there is, else what the engine says.",
  };
  members.api_key = { ...members.api_key, description: "Sent to the engine; never shown or logged." };
  for (const member of IGNORED_MEMBERS)
    members[member] = { description: "Taken for compatibility, without a meaning here." };
  return { type: "object", properties: members, required: ["url"], additionalProperties: false };
}
