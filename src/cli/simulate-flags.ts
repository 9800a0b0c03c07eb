import { parseArgs } from "node:util";
import { parseFault } from "../simulator/faults.ts";
import type {
  SimulatedConnector,
  SimulatedEngineName,
  SimulatedEngineOptions,
  SimulatedRole,
  Timing,
} from "../simulator/options.ts";

/** Wrong usage of the command line: exit code 2, and the message names the flag. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export interface SimulateFlags {
  engine: SimulatedEngineOptions;
  port: number;
  host: string;
  sidePort: number | undefined;
  idleCloseMs: number;
}

const engines: readonly SimulatedEngineName[] = ["sglang", "vllm", "trtllm", "openai"];
const roles: readonly SimulatedRole[] = ["prefill", "decode", "aggregated"];
const connectors: readonly SimulatedConnector[] = ["nixl", "nixl-push", "mooncake"];

const timingFlags: Readonly<Record<string, keyof Timing>> = {
  "prefill-ms-per-token": "prefillMsPerToken",
  "itl-ms": "itlMs",
  "transfer-ms": "transferMs",
  "lease-ms": "leaseMs",
  "pair-ms": "pairMs",
  "dial-ms": "dialMs",
};

const text = { type: "string" } as const;
const options = {
  engine: text,
  role: text,
  connector: text,
  port: text,
  host: text,
  model: text,
  adapter: { type: "string", multiple: true },
  "bootstrap-port": text,
  "bootstrap-host": text,
  "engine-id": text,
  "dp-size": text,
  "max-model-len": text,
  "answer-tokens": text,
  "idle-close-ms": text,
  "prefill-ms-per-token": text,
  "itl-ms": text,
  "transfer-ms": text,
  "lease-ms": text,
  "pair-ms": text,
  "dial-ms": text,
  fault: { type: "string", multiple: true },
  help: { type: "boolean", short: "h" },
} as const;

/** Reads the flags of `simulate`; "help" when help was asked for. Throws UsageError. */
export function readSimulateFlags(args: readonly string[]): SimulateFlags | "help" {
  const values = parse(args);
  if (values.help === true) return "help";
  const engine = oneOf("engine", values.engine, engines);
  const role = oneOf("role", values.role ?? "aggregated", roles);
  if (engine === "openai" && role !== "aggregated")
    throw new UsageError('--engine openai has only --role "aggregated"');
  const faults = values.fault ?? [];
  for (const fault of faults) checkFault(fault);
  const sidePort = integer("bootstrap-port", values["bootstrap-port"], 1, 65_535);
  const maxModelLen = integer("max-model-len", values["max-model-len"], 1);
  const dpSize = integer("dp-size", values["dp-size"], 1);
  const answerTokens = integer("answer-tokens", values["answer-tokens"], 0);
  return {
    port: integer("port", values.port, 0, 65_535) ?? 0,
    host: values.host ?? "127.0.0.1",
    sidePort,
    idleCloseMs: integer("idle-close-ms", values["idle-close-ms"], 0) ?? 5000,
    engine: {
      engine,
      role,
      faults,
      connector: oneOf("connector", values.connector ?? "nixl", connectors),
      timing: readTiming(values),
      adapters: values.adapter ?? [],
      ...(values.model === undefined ? {} : { model: values.model }),
      ...(values["engine-id"] === undefined ? {} : { engineId: values["engine-id"] }),
      ...(values["bootstrap-host"] === undefined ? {} : { sideHost: values["bootstrap-host"] }),
      ...(sidePort === undefined ? {} : { sidePort }),
      ...(maxModelLen === undefined ? {} : { maxModelLen }),
      ...(dpSize === undefined ? {} : { dpSize }),
      ...(answerTokens === undefined ? {} : { answerTokens }),
    },
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function readTiming(values: Readonly<Record<string, unknown>>): Partial<Timing> {
  const timing: Partial<Timing> = {};
  for (const [flag, name] of Object.entries(timingFlags)) {
    const value = values[flag];
    if (typeof value === "string") timing[name] = number(flag, value, 0);
  }
  return timing;
}

function oneOf<T extends string>(flag: string, value: string | undefined, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw new UsageError(`Expected --${flag} ${allowed.join("|")}, got "${value ?? ""}"`);
  return found;
}

function integer(flag: string, value: string | undefined, least: number, most = Number.MAX_SAFE_INTEGER) {
  if (value === undefined) return undefined;
  const read = number(flag, value, least, most);
  if (!Number.isInteger(read)) throw new UsageError(`Expected an integer for --${flag}, got "${value}"`);
  return read;
}

function number(flag: string, value: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  const read = value.trim() === "" ? Number.NaN : Number(value);
  if (!(read >= least && read <= most)) {
    throw new UsageError(`Expected --${flag} from ${least} to ${most}, got "${value}"`);
  }
  return read;
}

function checkFault(fault: string): void {
  try {
    parseFault(fault);
  } catch (error) {
    throw new UsageError(`--fault: ${error instanceof Error ? error.message : String(error)}`);
  }
}
