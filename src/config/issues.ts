import type { BaseIssue } from "valibot";
import { keysAt } from "./known-keys.ts";
import { nearest } from "./nearest.ts";

/** One thing that is wrong, and where: `models[0].pools[0].decode`, or "" for the configuration as a whole. */
export interface ConfigIssue {
  path: string;
  message: string;
}

/** Everything that is wrong with a configuration at once. The message has one line per issue: `field: what was wanted, what came`. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly issues: readonly ConfigIssue[];

  constructor(issues: readonly ConfigIssue[]) {
    super(issues.map(({ path, message }) => `${path === "" ? "configuration" : path}: ${message}`).join("\n"));
    this.issues = issues;
  }
}

/** Writes a path as people write it: `models[0].pools[0].decode`; odd keys are quoted. */
export function pathText(keys: readonly unknown[]): string {
  let out = "";
  for (const key of keys) {
    if (typeof key === "number") out += `[${key}]`;
    else if (typeof key === "string" && /^[A-Za-z_$][\w$-]*$/.test(key)) out += out === "" ? key : `.${key}`;
    else out += `[${JSON.stringify(String(key))}]`;
  }
  return out;
}

/** Turns what valibot found wrong with `schema` into our own words. */
export function fromValibot(issues: readonly BaseIssue<unknown>[], schema: unknown): ConfigIssue[] {
  return issues.map(function translate(issue): ConfigIssue {
    const keys = issue.path?.map((item) => item.key) ?? [];
    return { path: pathText(keys), message: strictMessage(issue, keys, schema) ?? issue.message };
  });
}

/** A strict object complains in one voice about a key that is missing, one that is unknown, and a value that is no object. */
function strictMessage(issue: BaseIssue<unknown>, keys: readonly unknown[], schema: unknown): string | undefined {
  if (issue.type !== "strict_object") return undefined;
  const key = keys.at(-1);
  if (issue.expected === "never") {
    const near = typeof key === "string" ? nearest(key, keysAt(schema, keys.slice(0, -1))) : undefined;
    return `unknown key${near === undefined ? "" : ` (did you mean "${near}"?)`}`;
  }
  if (issue.expected === `"${String(key)}"`) return "is required, got nothing";
  return undefined;
}
