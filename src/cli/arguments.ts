import { nearest } from "../config/nearest.ts";
import { type Place, parsePlace } from "../regions/place.ts";
import { COMMANDS, type CommandName, FLAGS, type Flag } from "./flags.ts";

/** Bad usage: exit code 2 (contract section 1). */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** What `serve` and `check` were told. Values are as typed; the configuration's own checks judge them. */
export interface ServeArguments {
  config?: string;
  host?: string;
  port?: number;
  engine?: string;
  model?: string;
  pdDisaggregation: boolean;
  reusePort: boolean;
  connector?: string;
  prefill: { url: string; bootstrapPort?: number }[];
  decode: string[];
  workerUrls: string[];
  policy?: string;
  prefillPolicy?: string;
  decodePolicy?: string;
}

export interface CheckArguments extends ServeArguments {
  json: boolean;
  /** Judge the configuration alone, ask no engine. */
  offline: boolean;
  /** Print the costs of pools, seen from there; `here` is the router's own place. */
  explain?: Place | "here";
}

export interface DemoArguments {
  host?: string;
  port?: number;
}

export type Arguments =
  | { command: "help" }
  | { command: "version" }
  | { command: "serve"; args: ServeArguments }
  | { command: "check"; args: CheckArguments }
  | { command: "demo"; args: DemoArguments }
  /** Its flags belong to the simulator. */
  | { command: "simulate"; args: string[] };

/** Reads the command line without the program's own name. Throws `UsageError`, whose message names what it did not understand. */
export function parseArguments(argv: readonly string[]): Arguments {
  const [first, ...rest] = argv;
  if (first === undefined) throw new UsageError(`wanted a command, one of ${COMMANDS.join(", ")}, got none`);
  if (first === "--help" || first === "-h" || first === "help") return { command: "help" };
  if (first === "--version" || first === "-V") return { command: "version" };
  const command = COMMANDS.find((name) => name === first);
  if (command === undefined) {
    const what = first.startsWith("-") ? "a command before the flags" : "a command";
    const near = nearest(first, COMMANDS);
    throw new UsageError(
      `wanted ${what}, one of ${COMMANDS.join(", ")}, got "${first}"${near === undefined ? "" : ` (did you mean "${near}"?)`}`,
    );
  }
  if (command === "simulate") return { command, args: rest };
  const values = readFlags(command, rest);
  if (values.help) return { command: "help" };
  const { help: _help, json, offline, explain, ...serve } = values;
  if (command === "serve") return { command, args: serve };
  if (command === "check")
    return { command, args: { ...serve, json, offline, ...(explain !== undefined && { explain }) } };
  const { host, port } = serve;
  return { command, args: { ...(host !== undefined && { host }), ...(port !== undefined && { port }) } };
}

type Values = CheckArguments & { help: boolean };

function readFlags(command: CommandName, argv: readonly string[]): Values {
  const values: Values = {
    pdDisaggregation: false,
    reusePort: false,
    prefill: [],
    decode: [],
    workerUrls: [],
    json: false,
    offline: false,
    help: false,
  };
  const words = [...argv];
  while (words.length > 0) {
    const word = words.shift()!;
    if (word === "-h") {
      values.help = true;
      continue;
    }
    if (!word.startsWith("--")) throw new UsageError(`wanted a flag of ${command}, got "${word}"`);
    const equals = word.indexOf("=");
    const name = equals === -1 ? word : word.slice(0, equals);
    const flag = findFlag(command, name);
    // `--flag=value` and `--flag value` are one; the value goes back to the words it would have come from.
    if (equals !== -1) {
      if (flag.kind === "switch") throw new UsageError(`${name} takes no value, got "${word.slice(equals + 1)}"`);
      words.unshift(word.slice(equals + 1));
    }
    setFlag(values, flag, name, words, equals !== -1);
  }
  return values;
}

function findFlag(command: CommandName, name: string): Flag {
  const known = FLAGS.filter((flag) => flag.commands.includes(command));
  const found = known.find((flag) => flag.names.includes(name));
  if (found !== undefined) return found;
  const near = nearest(
    name,
    known.flatMap((flag) => flag.names),
  );
  throw new UsageError(`unknown flag ${name} of ${command}${near === undefined ? "" : ` (did you mean ${near}?)`}`);
}

/** Takes the flag's values off the front of `words`. `glued`: the first one came after an equals sign, so it may look like a flag. */
function setFlag(values: Values, flag: Flag, name: string, words: string[], glued: boolean): void {
  if (flag.kind === "switch") {
    values[flag.field] = true;
    return;
  }
  const first = words[0];
  // Its value may be left out; one that begins with a minus is a latitude in the south.
  if (flag.kind === "place" && (first === undefined || (!glued && first.startsWith("--")))) {
    values.explain = "here";
    return;
  }
  if (first === undefined || first === "" || (!glued && first.startsWith("--"))) {
    throw new UsageError(
      `${name} wanted ${flag.value}, got ${first === undefined || first === "" ? "nothing" : `"${first}"`}`,
    );
  }
  words.shift();
  switch (flag.kind) {
    case "text":
      values[flag.field] = first;
      return;
    case "port":
      values[flag.field] = portNumber(first, name, 0);
      return;
    case "place":
      values.explain = parsePlace(first);
      if (values.explain === undefined)
        throw new UsageError(`${name} wanted LATITUDE,LONGITUDE in degrees, got "${first}"`);
      return;
    case "urls":
      values[flag.field].push(first);
      if (flag.many)
        while (words[0] !== undefined && !words[0].startsWith("--")) values[flag.field].push(words.shift()!);
      return;
    case "prefill": {
      // Other routers take "none" for a server without a bootstrap port.
      const port = words[0] !== undefined && /^(\d+|none)$/i.test(words[0]) ? words.shift()! : "none";
      values.prefill.push({
        url: first,
        ...(port.toLowerCase() !== "none" && { bootstrapPort: portNumber(port, `${name} ${first}`, 1) }),
      });
    }
  }
}

function portNumber(text: string, name: string, least: 0 | 1): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
  if (port < least || port > 65535) throw new UsageError(`${name} wanted a port from ${least} to 65535, got "${text}"`);
  return port;
}
