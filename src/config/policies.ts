import * as v from "valibot";
import type { PolicyName } from "./types.ts";
import { wantedOneOf } from "./wanted.ts";

export const POLICY_NAMES = [
  "round-robin",
  "random",
  "power-of-two",
  "least-load",
  "prefix-aware",
  "consistent-hash",
] as const satisfies readonly PolicyName[];

export type { PolicyName } from "./types.ts";

/** How the routers people come from spell the same policies (contract section 1). */
const FOREIGN: Readonly<Record<string, PolicyName>> = {
  "cache-aware": "prefix-aware",
  "consistent-hashing": "consistent-hash",
};

/** Our spelling of a policy name in anybody's spelling, or undefined: `cache_aware` → `prefix-aware`. */
export function policyName(text: string): PolicyName | undefined {
  const dashed = text.replaceAll("_", "-");
  return POLICY_NAMES.find((name) => name === dashed) ?? (Object.hasOwn(FOREIGN, dashed) ? FOREIGN[dashed] : undefined);
}

/** Every spelling that is taken, ours first: for the JSON Schema and for messages. */
export const POLICY_SPELLINGS: readonly string[] = [
  ...POLICY_NAMES,
  ...Object.keys(FOREIGN),
  ...[...POLICY_NAMES, ...Object.keys(FOREIGN)].filter((s) => s.includes("-")).map((s) => s.replaceAll("-", "_")),
];

/** A policy name in any spelling; comes out in ours. */
export const policySchema = v.pipe(
  v.picklist(POLICY_SPELLINGS, wantedOneOf(POLICY_NAMES)),
  v.transform((text): PolicyName => policyName(text)!),
);
