import { toJsonSchema } from "@valibot/to-json-schema";
import { configSchema } from "./schema.ts";
import { workerObject, workerSchema } from "./worker.ts";

/**
 * JSON Schema (draft 2020-12) of the configuration as an operator writes it, for completion and checks in editors. Rules between
 * fields are not in it: `check` knows those. For the build only: its converter is a development dependency.
 */
export function configJsonSchema(): Record<string, unknown> {
  const convert = (schema: Parameters<typeof toJsonSchema>[0]): Record<string, unknown> => {
    const { $schema, ...rest } = toJsonSchema(schema, {
      target: "draft-2020-12",
      typeMode: "input",
      // Checks written as functions have no counterpart; they only ever narrow what this schema takes.
      errorMode: "ignore",
      overrideSchema({ valibotSchema }) {
        if (valibotSchema === workerSchema) return { anyOf: [{ type: "string" }, { $ref: "#/$defs/worker" }] };
        return undefined;
      },
    });
    return rest;
  };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "prefill-router configuration",
    ...convert(configSchema),
    $defs: { worker: convert(workerObject) },
  };
}
