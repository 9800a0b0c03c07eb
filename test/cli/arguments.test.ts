import { describe, expect, test } from "bun:test";
import { parseArguments, UsageError } from "../../src/cli/arguments.ts";
import { FLAGS } from "../../src/cli/flags.ts";
import { helpText } from "../../src/cli/help.ts";

const NOTHING = { pdDisaggregation: false, reusePort: false, prefill: [], decode: [], workerUrls: [] };

describe("the command line", () => {
  const table: [line: string, expected: object][] = [
    ["--help", { command: "help" }],
    ["-h", { command: "help" }],
    ["help", { command: "help" }],
    ["serve --help", { command: "help" }],
    ["check -h", { command: "help" }],
    ["--version", { command: "version" }],
    ["serve", { command: "serve", args: NOTHING }],
    ["serve --config r.yaml", { command: "serve", args: { ...NOTHING, config: "r.yaml" } }],
    ["serve --config=r.yaml --port=1", { command: "serve", args: { ...NOTHING, config: "r.yaml", port: 1 } }],
    ["serve --host :: --port 0", { command: "serve", args: { ...NOTHING, host: "::", port: 0 } }],
    ["serve --port 1 --port 2", { command: "serve", args: { ...NOTHING, port: 2 } }],
    ["serve --config=--odd=name", { command: "serve", args: { ...NOTHING, config: "--odd=name" } }],
    [
      "serve --engine sglang --pd-disaggregation --prefill http://a 8997 --prefill http://b --decode http://c --decode http://d",
      {
        command: "serve",
        args: {
          ...NOTHING,
          engine: "sglang",
          pdDisaggregation: true,
          reusePort: false,
          prefill: [{ url: "http://a", bootstrapPort: 8997 }, { url: "http://b" }],
          decode: ["http://c", "http://d"],
        },
      },
    ],
    [
      "serve --vllm-pd-disaggregation --kv-connector mooncake --prefill=http://a 8998 --decode=http://c",
      {
        command: "serve",
        args: {
          ...NOTHING,
          pdDisaggregation: true,
          reusePort: false,
          connector: "mooncake",
          prefill: [{ url: "http://a", bootstrapPort: 8998 }],
          decode: ["http://c"],
        },
      },
    ],
    ["serve --prefill http://a none", { command: "serve", args: { ...NOTHING, prefill: [{ url: "http://a" }] } }],
    [
      "serve --worker-urls http://a http://b --model m --worker-urls=http://c",
      { command: "serve", args: { ...NOTHING, workerUrls: ["http://a", "http://b", "http://c"], model: "m" } },
    ],
    [
      "serve --policy cache_aware --prefill-policy random --decode-policy least_load",
      {
        command: "serve",
        args: { ...NOTHING, policy: "cache_aware", prefillPolicy: "random", decodePolicy: "least_load" },
      },
    ],
    [
      "check --config r.yaml --json --offline",
      { command: "check", args: { ...NOTHING, config: "r.yaml", json: true, offline: true } },
    ],
    ["demo --port 9000", { command: "demo", args: { port: 9000 } }],
    ["simulate --role prefill --anything 1", { command: "simulate", args: ["--role", "prefill", "--anything", "1"] }],
  ];
  for (const [line, expected] of table) {
    test(line, () => expect<object>(parseArguments(line.split(" "))).toEqual(expected));
  }
});

describe("bad usage says what was not understood", () => {
  const table: [argv: string[], text: string][] = [
    [[], "wanted a command, one of serve, check, simulate, demo, got none"],
    [["sevre"], 'did you mean "serve"?'],
    [["--config", "x"], "a command before the flags"],
    [["serve", "--bogus"], "unknown flag --bogus of serve"],
    [["serve", "--prot", "1"], "did you mean --port?"],
    [["serve", "--pd_disaggregation"], "did you mean --pd-disaggregation?"],
    [["serve", "--json"], "unknown flag --json of serve"],
    [["demo", "--config", "x"], "unknown flag --config of demo"],
    [["serve", "file.yaml"], 'wanted a flag of serve, got "file.yaml"'],
    [["serve", "--decode", "http://a", "8998"], 'got "8998"'],
    [["serve", "--config"], "--config wanted FILE, got nothing"],
    [["serve", "--config", "--port"], '--config wanted FILE, got "--port"'],
    [["serve", "--config="], "--config wanted FILE, got nothing"],
    [["serve", "--pd-disaggregation=yes"], "--pd-disaggregation takes no value"],
    [["serve", "--port", "eighty"], '--port wanted a port from 0 to 65535, got "eighty"'],
    [["serve", "--port", "65536"], '"65536"'],
    [["serve", "--port", "-1"], '"-1"'],
    [["serve", "--prefill", "http://a", "0"], "--prefill http://a wanted a port from 1 to 65535"],
  ];
  for (const [argv, text] of table) {
    test(argv.join(" ") || "nothing", () => {
      expect(() => parseArguments(argv)).toThrow(UsageError);
      expect(() => parseArguments(argv)).toThrow(text);
    });
  }
});

test("the help names every flag and every other name it goes by", () => {
  const help = helpText();
  for (const name of FLAGS.flatMap((flag) => flag.names)) expect(help).toContain(name);
});
