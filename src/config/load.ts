import * as v from "valibot";
import { LineCounter, parseDocument } from "yaml";
import { completeConfig, type Platform } from "./complete.ts";
import { ConfigError, fromValibot } from "./issues.ts";
import { crossFieldIssues } from "./rules.ts";
import { configSchema, type RouterConfig } from "./schema.ts";

export { type ConfigSource, configFromEnv } from "./env-source.ts";
export { ConfigError, type ConfigIssue } from "./issues.ts";
export { resolveSecrets, type Secrets } from "./secrets.ts";

export interface LoadOptions {
  /** Default `server`. `workers` changes the default policies and caps `limits.fanout` (contract section 2). */
  platform?: Platform;
}

/** Far above any configuration, far below what would hurt; it also bounds the work of the YAML parser. */
const MAX_CHARACTERS = 1_048_576;

/** Aliases may add up to this many repetitions; an alias bomb needs thousands. */
const MAX_ALIASES = 100;

/**
 * Reads a configuration (contract section 2) from YAML or JSON text.
 *
 * Throws `ConfigError` with every issue found; nothing else is thrown, whatever the text.
 */
export function parseConfig(text: string, options: LoadOptions = {}): RouterConfig {
  return checkConfig(readText(text), options);
}

/** The same for a value that is an object already. The input is not changed. Throws `ConfigError`. */
export function checkConfig(input: unknown, options: LoadOptions = {}): RouterConfig {
  const result = v.safeParse(configSchema, input, { abortPipeEarly: true });
  if (!result.success) throw new ConfigError(fromValibot(result.issues, configSchema));
  const issues = crossFieldIssues(result.output);
  if (issues.length > 0) throw new ConfigError(issues);
  return completeConfig(result.output, options.platform ?? "server");
}

/** YAML 1.2 is a superset of JSON, so one parser reads both and finds keys given twice, which `JSON.parse` would drop. */
function readText(text: string): unknown {
  const whole = (message: string): ConfigError => new ConfigError([{ path: "", message }]);
  if (text.length > MAX_CHARACTERS) throw whole(`wanted at most ${MAX_CHARACTERS} characters, got ${text.length}`);
  try {
    const lines = new LineCounter();
    const document = parseDocument(text.replace(/^\uFEFF/, ""), {
      lineCounter: lines,
      prettyErrors: false,
      merge: true,
    });
    // Warnings are tags like !env, which nothing here resolves: taking the text for the value would be a lie.
    const problem = document.errors[0] ?? document.warnings[0];
    if (problem !== undefined) {
      const { line, col } = lines.linePos(problem.pos[0]);
      // The parser's own text here names its API, which means nothing to an operator.
      const text = problem.code === "MULTIPLE_DOCS" ? "A second document begins here" : problem.message;
      throw whole(`wanted YAML or JSON, got text that is neither at line ${line}, column ${col}: ${text}`);
    }
    return document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    // Alias bombs, and nesting deeper than the stack.
    throw whole(`wanted YAML or JSON, got text that cannot be read: ${(error as Error).message}`);
  }
}
