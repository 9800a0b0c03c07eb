import { readFile } from "node:fs/promises";
import { inertSettings } from "../config/inert.ts";
import { ConfigError, checkConfig, configFromEnv, parseConfig, resolveSecrets, type Secrets } from "../config/load.ts";
import { POLICY_NAMES, policyName } from "../config/policies.ts";
import type { RouterConfig } from "../config/schema.ts";
import { type ServeArguments, UsageError } from "./arguments.ts";
import { type AskFetch, askWith } from "./probe.ts";
import { isQuickStart, nameFlags, quickStartConfig } from "./quick-start.ts";

export interface LoadedConfig {
  config: RouterConfig;
  secrets: Secrets;
  /** Settings without effect, one line each, to be printed at start. */
  warnings: string[];
}

/**
 * The configuration `serve` and `check` run with, from, in this order: `--config`, workers on the command line, the environment
 * (`ROUTER_CONFIG`). `--host`, `--port` and the policy flags win over the file.
 *
 * Throws `UsageError` (exit code 2) or `ConfigError` (exit code 1, contract section 1). `fetch` asks the engines of a quick start.
 */
export async function loadServeConfig(
  args: ServeArguments,
  env: Readonly<Record<string, string | undefined>>,
  fetch: AskFetch = globalThis.fetch,
): Promise<LoadedConfig> {
  const config = applyFlags(await readConfig(args, env, fetch), args);
  return { config, secrets: resolveSecrets(config, env), warnings: inertSettings(config) };
}

/** The file the configuration is read from; undefined when it comes from flags or from the environment itself. */
export function configFile(
  args: ServeArguments,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (args.config !== undefined) return args.config;
  if (isQuickStart(args)) return undefined;
  const source = configFromEnv(env);
  return source !== undefined && "path" in source ? source.path : undefined;
}

async function readConfig(
  args: ServeArguments,
  env: Readonly<Record<string, string | undefined>>,
  fetch: AskFetch,
): Promise<RouterConfig> {
  if (args.config !== undefined) {
    const clash = quickStartFlag(args);
    if (clash !== undefined) throw new UsageError(`${clash} and --config exclude each other`);
    return parseConfig(await readText(args.config, "--config"));
  }
  if (isQuickStart(args)) {
    const input = await quickStartConfig(args, askWith(fetch));
    try {
      return checkConfig(input);
    } catch (error) {
      throw error instanceof ConfigError ? nameFlags(error) : error;
    }
  }
  const alone = quickStartFlag(args);
  if (alone !== undefined) throw new UsageError(`${alone} wants workers: --prefill and --decode, or --worker-urls`);
  const source = configFromEnv(env);
  if (source === undefined) {
    throw new UsageError(
      "wanted a configuration: --config FILE, ROUTER_CONFIG, --prefill and --decode, or --worker-urls",
    );
  }
  return parseConfig("text" in source ? source.text : await readText(source.path, "ROUTER_CONFIG"));
}

/** The first flag on the command line that describes workers, which a file does already. */
function quickStartFlag(args: ServeArguments): string | undefined {
  if (args.prefill.length > 0) return "--prefill";
  if (args.decode.length > 0) return "--decode";
  if (args.workerUrls.length > 0) return "--worker-urls";
  if (args.engine !== undefined) return "--engine";
  if (args.model !== undefined) return "--model";
  if (args.connector !== undefined) return "--kv-connector";
  if (args.pdDisaggregation) return "--pd-disaggregation";
  return undefined;
}

async function readText(path: string, field: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw new ConfigError([
      { path: field, message: `wanted a file that can be read, got "${path}" (${code ?? message})` },
    ]);
  }
}

function applyFlags(config: RouterConfig, args: ServeArguments): RouterConfig {
  const policy = (text: string | undefined, flag: string) => {
    if (text === undefined) return undefined;
    const name = policyName(text);
    if (name === undefined) throw new UsageError(`${flag} wanted one of ${POLICY_NAMES.join(", ")}, got "${text}"`);
    return name;
  };
  const both = policy(args.policy, "--policy");
  return {
    ...config,
    listen: { host: args.host ?? config.listen.host, port: args.port ?? config.listen.port },
    policy: {
      prefill: policy(args.prefillPolicy, "--prefill-policy") ?? both ?? config.policy.prefill,
      decode: policy(args.decodePolicy, "--decode-policy") ?? both ?? config.policy.decode,
    },
  };
}
