import { describe, expect, test } from "bun:test";
import { parseArguments } from "../../src/cli/arguments.ts";
import { type CheckReport, runCheck } from "../../src/cli/check.ts";
import { paintFor } from "../../src/cli/output.ts";
import { modelList, openPort, sglang, startEngine } from "./engines.ts";

interface Ran {
  code: number;
  out: string;
  err: string;
}

async function check(config: unknown, flags: string[] = [], env: Record<string, string> = {}): Promise<Ran> {
  const parsed = parseArguments(["check", ...flags]);
  if (parsed.command !== "check") throw new Error("not check");
  const out: string[] = [];
  const err: string[] = [];
  const output = { line: (s: string) => out.push(s), error: (s: string) => err.push(s), paint: paintFor(false, {}) };
  const all = { ROUTER_CONFIG: JSON.stringify(config), ...env };
  const code = await runCheck({ args: parsed.args, env: all, output });
  return { code, out: out.join("\n"), err: err.join("\n") };
}

const models = (pool: object, more: object = {}) => ({ models: [{ id: "m", pools: [pool], ...more }] });

describe("check", () => {
  test("prints what each engine is and answers 0 when all are as configured", async () => {
    const port = await openPort();
    const p = startEngine(sglang("prefill", { disaggregation_bootstrap_port: port }));
    const d = startEngine(sglang("decode", {}, "/get_server_info"));
    const { code, out, err } = await check(
      models({ engine: "sglang", prefill: [{ url: p, name: "p1", bootstrapPort: port }], decode: [d] }),
    );
    expect([code, err]).toEqual([0, ""]);
    expect(out).toContain("pool default: sglang, cancel anytime");
    expect(out).toContain(
      `prefill    p1  ${p}  ok  version 0.5.23, role prefill, dp size 1, bootstrap 127.0.0.1:${port} open, serves m`,
    );
    expect(out).toContain(`decode     decode-1  ${d}  ok  version 0.5.23, role decode, dp size 1, serves m`);
    expect(out).toContain("this runtime allows 256, serve raises it");
    expect(out).toEndWith("all engines are what the configuration says");
    expect(out).not.toContain("\u001b");
  });

  test("a Mooncake prefill whose bootstrap server does not tell its engine ids is an error: the router asks there itself", async () => {
    const told = { "0": { engine_id: "e-1", worker_addr: {} } };
    const vllm = modelList("vllm", "m");
    for (const [routes, code] of [
      [{ "/query": told }, 0],
      [{ "/query": {} }, 1],
      [{}, 1],
    ] as const) {
      const bootstrap = new URL(startEngine(routes));
      const bootstrapPort = Number(bootstrap.port);
      const prefill = [{ url: startEngine(vllm), name: "p1", bootstrapHost: "127.0.0.1", bootstrapPort }];
      const ran = await check(models({ engine: "vllm", connector: "mooncake", prefill, decode: [startEngine(vllm)] }));
      expect([ran.code, (ran.out + ran.err).includes("tells its engine ids at 127.0.0.1")]).toEqual([code, code === 1]);
    }
  });

  test("exchanged roles and a wrong bootstrap port are errors that name the field", async () => {
    const p = startEngine(sglang("decode", { disaggregation_bootstrap_port: 9000, dp_size: 2 }));
    const { code, out, err } = await check(
      models({
        engine: "sglang",
        prefill: [{ url: p, bootstrapPort: 1, dpSize: 1 }],
        decode: [startEngine(sglang("null"))],
      }),
    );
    expect(code).toBe(1);
    expect(err.split("\n")).toEqual([
      "models[0].pools[0].prefill[0]: wanted a prefill server, got a decode one (disaggregation_mode); are the lists exchanged?",
      "models[0].pools[0].prefill[0].bootstrapPort: wanted the server's own bootstrap port 9000, got 1",
      "models[0].pools[0].decode[0]: wanted a decode server, got an aggregated one (disaggregation_mode); was it started without --disaggregation-mode?",
    ]);
    expect(out).toContain("warning models[0].pools[0].prefill[0].dpSize: the server has 2 data-parallel ranks");
    expect(out).toContain("warning models[0].pools[0].prefill[0].bootstrapPort: 127.0.0.1:1 is not open from here");
    expect(out).toEndWith("3 to put right");
  });

  test("an engine that is down, and one that serves another model", async () => {
    const d = startEngine({ ...modelList("vllm", "other"), "/version": { version: "0.32.0" } });
    const { code, out, err } = await check(
      models({ engine: "vllm", prefill: ["http://127.0.0.1:1"], decode: [d] }, { adapters: ["lora"] }),
    );
    expect(code).toBe(1);
    expect(err.split("\n")).toEqual([
      "models[0].pools[0].prefill[0].url: wanted an engine that answers at http://127.0.0.1:1, got ECONNREFUSED (nothing listens there: is the engine up, and bound to an address that others can reach?)",
      'models[0].pools[0].decode[0]: wanted an engine that serves "m", got "other" (--served-model-name, or the id in the configuration)',
    ]);
    expect(out).toContain("not reachable");
    expect(out).toContain("not as configured  version 0.32.0, serves other");
    expect(out).toContain('warning models[0].pools[0].decode[0]: the adapter "lora" is not listed');
  });

  test("another engine behind the API they share is told, for hand-offs are not shared", async () => {
    const p = startEngine(sglang("prefill"));
    const d = startEngine(sglang("decode"));
    const { code, err } = await check(models({ engine: "vllm", prefill: [p], decode: [d] }));
    expect(code).toBe(1);
    expect(err.split("\n")).toEqual([
      "models[0].pools[0].prefill[0]: wanted vllm, got sglang (owned_by of its models)",
      "models[0].pools[0].decode[0]: wanted vllm, got sglang (owned_by of its models)",
    ]);
  });

  test("what flags have named is named after the flags", async () => {
    const [p, d] = [startEngine(sglang("decode")), startEngine(sglang("decode"))];
    const { err } = await check({}, ["--prefill", p, "--decode", d]);
    expect(err).toStartWith("--prefill (models[0].pools[0].prefill[0]): wanted a prefill server, got a decode one");
  });

  test("the worker's own key is used, and never printed", async () => {
    const url = startEngine(modelList("me", "m"), "s3cret-key");
    const config = models({ engine: "openai", workers: [{ url, apiKeyEnv: "W_KEY" }] });
    const good = await check(config, [], { W_KEY: "s3cret-key" });
    expect([good.code, good.err]).toEqual([0, ""]);
    const bad = await check(config, ["--json"], { W_KEY: "wr0ng-key" });
    expect(bad.code).toBe(1);
    expect(bad.err).toContain("status 401");
    expect(`${good.out}${bad.out}${bad.err}`).not.toContain("-key");
  });

  test("--json is one object with the same findings", async () => {
    const url = startEngine({ ...modelList("vllm", "m"), "/version": { version: "0.32.0" } });
    const { code, out } = await check(models({ engine: "vllm", workers: [url] }), ["--json"], {
      BUN_CONFIG_MAX_HTTP_REQUESTS: "9000",
    });
    expect(code).toBe(0);
    const report = JSON.parse(out) as CheckReport;
    expect(report).toMatchObject({
      ok: true,
      problems: [],
      connections: { needed: 8192, allowed: 9000, chosen: true },
    });
    expect(report.models[0]!.pools[0]!.workers[0]!).toMatchObject({
      name: "worker-1",
      reachable: true,
      version: "0.32.0",
    });
  });

  test("a bad configuration is a report too with --json, and an error without", async () => {
    const bad = await check({ models: [] }, ["--json"]);
    expect(bad.code).toBe(1);
    expect(JSON.parse(bad.out)).toMatchObject({ ok: false, problems: [{ path: "models" }] });
    expect(bad.err).toContain("models: wanted at least one model");
    expect(check({ models: [] })).rejects.toThrow("models: wanted at least one model");
  });

  test("a connection cap that somebody chose too small is told, because serve leaves it alone", async () => {
    const config = models({ engine: "openai", workers: ["http://127.0.0.1:1"] });
    const { code, out } = await check(config, ["--offline"], { BUN_CONFIG_MAX_HTTP_REQUESTS: "512" });
    expect(code).toBe(0);
    expect(out).toContain("warning BUN_CONFIG_MAX_HTTP_REQUESTS: 512 is less than the 8192");
    expect(out).not.toContain("serve raises it");
  });

  test("--offline asks nobody", async () => {
    const { code, out, err } = await check(
      models({ engine: "vllm", prefill: ["http://127.0.0.1:1"], decode: ["http://127.0.0.1:2"] }),
      ["--offline"],
    );
    expect([code, err]).toEqual([0, ""]);
    expect(out).toEndWith("configuration is valid, no engine was asked");
  });
});

test("colours are for terminals that want them", () => {
  expect(paintFor(true, {}).good("x")).toBe("\u001b[32mx\u001b[0m");
  for (const paint of [paintFor(false, {}), paintFor(true, { NO_COLOR: "1" }), paintFor(true, { TERM: "dumb" })]) {
    expect(paint.good("x")).toBe("x");
  }
});

describe("check --explain", () => {
  const pool = (name: string, region?: string) => ({
    name,
    engine: "vllm",
    region,
    prefill: [`http://p.${name}`],
    decode: [`http://d.${name}`],
  });
  const world = {
    models: [{ id: "m", pools: [pool("dublin", "eu"), pool("virginia", "us")] }],
    regions: [
      { name: "eu", latitude: 53.3, longitude: -6.3 },
      { name: "us", latitude: 38.9, longitude: -77.4 },
    ],
    location: { region: "us" },
    auth: { clientKeys: [{ name: "team", keyEnv: "TEAM", allowedRegions: ["eu"] }] },
  };
  const env = { TEAM: "k" };

  test("prints what each pool costs from a place, cheapest first, with the router's own choice code: two round trips, since vLLM's legs go one after the other", async () => {
    const { code, out } = await check(world, ["--offline", "--explain", "48.9,2.4"], env);
    expect(code).toBe(0);
    const lines = out.split("\n").filter((line) => line.includes("distance"));
    expect(lines[0]).toContain("costs seen from 48.9,2.4");
    expect(lines[1]).toMatch(
      /pool dublin +eu +distance 2\d\.\d ms \+ queue 0\.0 ms - reuse 0\.0 ms = 2\d\.\d ms +100\.0 % of sessions$/,
    );
    expect(lines[2]).toMatch(/pool virginia +us +distance 18\d\.\d ms .* 0\.\d % of sessions +never for team$/);
  });

  test("without a place the router's own counts; JSON has the same", async () => {
    const { out } = await check(world, ["--offline", "--json", "--explain"], env);
    const { costs } = JSON.parse(out) as CheckReport;
    expect(costs!.from).toEqual({ latitude: 38.9, longitude: -77.4 });
    expect(costs!.models[0]!.pools.map(({ name }) => name)).toEqual(["virginia", "dublin"]);
    expect(costs!.models[0]!.pools[0]).toMatchObject({
      distanceMs: 4,
      queueMs: 0,
      reuseMs: 0,
      totalMs: 4,
      notFor: ["team"],
    });
  });

  test("southern latitudes begin with a minus; what is no place is bad usage", async () => {
    const { out } = await check(world, ["--offline", "--explain", "-33.9,151.2"], env);
    expect(out).toContain("costs seen from -33.9,151.2");
    expect(() => parseArguments(["check", "--explain", "Paris"])).toThrow(
      '--explain wanted LATITUDE,LONGITUDE in degrees, got "Paris"',
    );
    expect(() => parseArguments(["check", "--explain", "91,0"])).toThrow("wanted LATITUDE,LONGITUDE");
  });
});
