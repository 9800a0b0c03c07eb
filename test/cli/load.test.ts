import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArguments, UsageError } from "../../src/cli/arguments.ts";
import { type LoadedConfig, loadServeConfig } from "../../src/cli/load.ts";
import { ConfigError } from "../../src/config/load.ts";
import { modelList, type Routes, sglang, startEngine } from "./engines.ts";

const folder = mkdtempSync(join(tmpdir(), "router-load-"));
afterAll(() => rmSync(folder, { recursive: true }));
const TEXT = 'models: [{ id: m, pools: [{ engine: vllm, prefill: ["http://a"], decode: ["http://b"] }] }]';
const file = join(folder, "router.yaml");
writeFileSync(file, TEXT);

function load(line: string, env: Record<string, string> = {}): Promise<LoadedConfig> {
  const parsed = parseArguments(["serve", ...line.split(" ").filter((word) => word !== "")]);
  if (parsed.command !== "serve") throw new Error("not serve");
  return loadServeConfig(parsed.args, env);
}

async function failure(run: Promise<unknown>): Promise<Error> {
  try {
    await run;
  } catch (error) {
    return error as Error;
  }
  throw new Error("it was taken");
}

describe("where the configuration comes from", () => {
  test("the file; host, port and policies of the command line win over it", async () => {
    const { config } = await load(
      `--config ${file} --host 0.0.0.0 --port 9000 --policy round_robin --decode-policy random`,
    );
    expect(config.listen).toEqual({ host: "0.0.0.0", port: 9000 });
    expect(config.policy).toEqual({ prefill: "round-robin", decode: "random" });
    expect(config.models[0]!.id).toBe("m");
    expect((await load(`--config ${file}`)).config.listen).toEqual({ host: "127.0.0.1", port: 8000 });
  });

  test("ROUTER_CONFIG as text, as a path and in parts", async () => {
    for (const env of [
      { ROUTER_CONFIG: TEXT },
      { ROUTER_CONFIG: file },
      { ROUTER_CONFIG_1: TEXT.slice(0, 20), ROUTER_CONFIG_2: TEXT.slice(20) },
    ] as Record<string, string>[]) {
      expect((await load("", env)).config.models[0]!.id).toBe("m");
    }
  });

  test("workers on the command line win over the environment", async () => {
    const { config } = await load("--engine openai --model x --worker-urls http://w", { ROUTER_CONFIG: "models: 1" });
    expect(config.models[0]!.id).toBe("x");
  });

  test("secrets come from the environment and settings without effect are told", async () => {
    const text =
      'models: [{ id: m, pools: [{ engine: openai, workers: [{ url: "http://a", apiKeyEnv: K, dpSize: 2 }] }] }]';
    const { secrets, warnings } = await load("", { ROUTER_CONFIG: text, K: "secret" });
    expect([...secrets.workerKeys]).toEqual([["worker-1", "secret"]]);
    expect(warnings).toEqual([expect.stringContaining("models[0].pools[0].workers[0].dpSize: ")]);
    expect((await failure(load("", { ROUTER_CONFIG: text }))).message).toContain(
      "apiKeyEnv: the environment variable K",
    );
  });

  for (const [line, text] of [
    ["", "wanted a configuration"],
    [`--config ${file} --decode http://a`, "--decode and --config exclude each other"],
    [`--config ${file} --engine vllm`, "--engine and --config exclude each other"],
    ["--engine vllm", "--engine wants workers"],
    ["--pd-disaggregation --prefill http://a", "wants --prefill and --decode"],
    [`--config ${file} --policy best`, "--policy wanted one of round-robin, random"],
  ] as const) {
    test(`bad usage: ${text}`, async () => {
      const error = await failure(load(line));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toContain(text);
    });
  }

  test("a file that is not there is named", async () => {
    const error = await failure(load(`--config ${join(folder, "none.yaml")}`));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toContain("--config: wanted a file that can be read");
    expect(error.message).toContain("ENOENT");
    expect((await failure(load("", { ROUTER_CONFIG: join(folder, "x") }))).message).toContain("ROUTER_CONFIG: ");
  });
});

describe("the quick start", () => {
  test("asks the engines for their model and kind, and carries the bootstrap port", async () => {
    const [p, d] = [startEngine(sglang("prefill")), startEngine(sglang("decode"))];
    const { config } = await load(`--pd-disaggregation --prefill ${p}/ 8997 --decode ${d} --policy cache_aware`);
    const pool = config.models[0]!.pools[0]!;
    expect([config.models[0]!.id, pool.engine, pool.prefill[0]!.bootstrapPort, pool.prefill[0]!.url]).toEqual([
      "m",
      "sglang",
      8997,
      p,
    ]);
    expect(config.policy).toEqual({ prefill: "prefix-aware", decode: "prefix-aware" });
  });

  for (const [engine, routes] of [
    ["vllm", { ...modelList("vllm", "m"), "/version": { version: "0.32.0" } }],
    ["trtllm", { ...modelList("tensorrt_llm", "m"), "/version": { version: "1.2.0" } }],
    ["sglang", { ...modelList("", "m"), "/get_server_info": { disaggregation_mode: "null" } }],
    ["vllm", { ...modelList("me", "m"), "/server_info": { vllm_config: "" }, "/version": { version: "0.32.0" } }],
  ] as [string, Routes][]) {
    test(`tells ${engine} by what it answers at ${Object.keys(routes).join(", ")}`, async () => {
      const { config } = await load(`--worker-urls ${startEngine(routes)}`);
      expect(config.models[0]!.pools[0]!.engine as string).toBe(engine);
    });
  }

  test("adapters that all engines list go through as they are", async () => {
    const data = [
      { id: "lora", owned_by: "vllm", parent: "base" },
      { id: "base", owned_by: "vllm", parent: null },
      { id: "second-name", owned_by: "vllm", parent: null },
    ];
    const all = startEngine({ "/v1/models": { data } });
    const fewer = startEngine({ "/v1/models": { data: data.slice(0, 2) } });
    const { config } = await load(`--prefill ${all} --decode ${fewer}`);
    expect(config.models[0]!).toMatchObject({ id: "base", adapters: ["lora"] });
  });

  test("an engine that is down does not matter while another tells", async () => {
    const { config } = await load(`--prefill http://127.0.0.1:1 --decode ${startEngine(modelList("vllm", "m"))}`);
    expect(config.models[0]!.id).toBe("m");
  });

  test("nobody tells: the flag to give is named, with every reason", async () => {
    const odd = startEngine({ "/v1/models": { data: [] } });
    const { message } = await failure(load(`--worker-urls http://127.0.0.1:1 ${odd} ${startEngine({})}`));
    expect(message).toContain("--model: is required");
    expect(message).toContain("http://127.0.0.1:1: ECONNREFUSED");
    expect(message).toContain("lists no model");
    expect(message).toContain("status 404");
    const unknown = startEngine(modelList("me", "m"));
    expect((await failure(load(`--worker-urls ${unknown}`))).message).toContain("--engine: is required");
  });

  test("engines of different models are not mixed", async () => {
    const [a, b] = [startEngine(modelList("vllm", "a")), startEngine(modelList("vllm", "b"))];
    expect((await failure(load(`--worker-urls ${a} ${b}`))).message).toContain(`${b} does not list "a"`);
  });

  test("what is wrong is named after the flag that said it, and no engine is asked at a bad address", async () => {
    for (const [line, text] of [
      ["--engine vlm --model m --worker-urls http://a", "--engine (models[0].pools[0].engine): wanted one of"],
      [
        "--engine vllm --model m --prefill http://a --decode http://a/",
        "--decode (models[0].pools[0].decode[0].url): ",
      ],
      [
        "--engine vllm --model m --prefill http://a",
        "--decode (models[0].pools[0].decode): wanted at least one worker",
      ],
      ["--worker-urls http://u:pw@h", "--worker-urls: wanted a URL"],
    ] as const) {
      const error = await failure(load(line));
      expect(error).toBeInstanceOf(ConfigError);
      expect(error.message).toContain(text);
      expect(error.message).not.toContain("pw");
    }
  });
});
