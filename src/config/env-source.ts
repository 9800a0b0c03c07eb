import type { Platform } from "./complete.ts";
import { ConfigError } from "./issues.ts";

/** Where the environment says the configuration is. */
export type ConfigSource = { text: string } | { path: string };

/**
 * The configuration named by the environment (contract section 2): `ROUTER_CONFIG` holds the text or a path, or
 * `ROUTER_CONFIG_1` … `ROUTER_CONFIG_n` hold the text in parts. Undefined when none is set. On Workers it is always text.
 *
 * Throws `ConfigError` when both forms are set or a part is missing.
 */
export function configFromEnv(
  env: Readonly<Record<string, unknown>>,
  platform: Platform = "server",
): ConfigSource | undefined {
  const value = (name: string): string | undefined => {
    const held = env[name];
    return typeof held === "string" && held.trim() !== "" ? held : undefined;
  };
  const whole = value("ROUTER_CONFIG");
  const numbers = Object.keys(env)
    .map((name) => /^ROUTER_CONFIG_([1-9]\d*)$/.exec(name)?.[1])
    .filter((n) => n !== undefined && value(`ROUTER_CONFIG_${n}`) !== undefined)
    .map(Number)
    .sort((a, b) => a - b);
  if (numbers.length === 0) {
    if (whole === undefined) return undefined;
    return platform === "workers" || isText(whole) ? { text: whole } : { path: whole.trim() };
  }
  if (whole !== undefined) {
    throw new ConfigError([{ path: "ROUTER_CONFIG", message: "wanted it alone or in numbered parts, got both" }]);
  }
  const missing = numbers.findIndex((n, i) => n !== i + 1);
  if (missing !== -1) {
    const message = `is empty or missing, although ROUTER_CONFIG_${numbers.at(-1)} is set`;
    throw new ConfigError([{ path: `ROUTER_CONFIG_${missing + 1}`, message }]);
  }
  return { text: numbers.map((n) => value(`ROUTER_CONFIG_${n}`)).join("") };
}

/** A configuration is a mapping: it begins with a brace, or has a key with its colon, or more than one line. A path has none of these. */
function isText(value: string): boolean {
  const trimmed = value.trim();
  return trimmed.startsWith("{") || trimmed.includes("\n") || /:(\s|$)/.test(trimmed);
}
