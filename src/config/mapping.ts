import * as v from "valibot";
import { wanted } from "./wanted.ts";

export const aMapping = wanted("a mapping", (input) =>
  input === null ? "leave the line out, or write {}" : undefined,
);
export const aList = wanted("a list", (input) => (input === null ? "leave the line out, or write []" : undefined));

/** A section with fixed keys. Unlike valibot's strict object it takes no list: `timeouts: []` is a slip, not an empty section. */
export function mapping<Entries extends v.ObjectEntries>(
  entries: Entries,
  message: ReturnType<typeof wanted> = aMapping,
): v.StrictObjectSchema<Entries, ReturnType<typeof wanted>> {
  const schema = v.strictObject(entries, message);
  const run = schema["~run"];
  return {
    ...schema,
    "~run"(dataset, config) {
      if (!Array.isArray(dataset.value)) return run.call(this, dataset, config);
      v._addIssue(this, "type", dataset, config);
      // Untyped, with its issue: what a schema hands on when the type itself is wrong.
      return dataset as unknown as ReturnType<typeof run>;
    },
  };
}
