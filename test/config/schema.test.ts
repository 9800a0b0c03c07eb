import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { ConfigError, checkConfig, parseConfig } from "../../src/config/load.ts";
import { policyName } from "../../src/config/policies.ts";
import { BAD, goodConfig } from "./bad.ts";

function issuesOf(run: () => unknown): ConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("the configuration was taken");
}

describe("a bad configuration names the field, what was wanted and what came", () => {
  for (const [what, change, field, text] of BAD) {
    test(what, () => {
      const config = goodConfig();
      change(config, config.models[0]!.pools[0]!);
      const error = issuesOf(() => checkConfig(config));
      expect(error.issues.map((issue) => issue.path)).toContain(field);
      expect(error.issues.find((issue) => issue.path === field)!.message).toContain(text);
      expect(error.message).toContain(`${field}: `);
      expect(error.message).not.toContain("    at ");
      expect(error.message).not.toContain("pw");
    });
  }

  test("all of them at once, one line each", () => {
    const error = issuesOf(() => checkConfig({ listen: { port: -1 }, limits: { queue: -1 }, models: 3 }));
    expect(error.message.split("\n").map((line) => line.split(":")[0])).toEqual([
      "listen.port",
      "models",
      "limits.queue",
    ]);
  });
});

describe("defaults", () => {
  const minimal = checkConfig({
    models: [{ id: "m", pools: [{ engine: "vllm", prefill: ["http://a"], decode: ["http://b"] }] }],
  });

  test("are those the documentation shows, key by key", () => {
    const shown = parseConfig(readFileSync(new URL("every-key.yaml", import.meta.url), "utf8"));
    const { models: _m, health: shownHealth, ...rest } = shown;
    const { models: _n, health, ...mine } = minimal;
    expect(mine).toEqual(rest);
    // The path is the one default that depends on the engine, so only an operator's own is in the configuration.
    expect(shownHealth).toEqual({ ...health, path: "/health" });
  });

  test("of a worker are filled in, with a name that is no address", () => {
    expect(minimal.models[0]!.pools[0]!).toEqual({
      name: "default",
      engine: "vllm",
      connector: "nixl",
      cancel: "anytime",
      prefill: [
        {
          url: "http://a",
          name: "prefill-1",
          weight: 1,
          bootstrapHost: "a",
          kvPort: 5600,
          tpSize: 1,
          ppSize: 1,
        },
      ],
      decode: [expect.objectContaining({ url: "http://b", name: "decode-1" })],
      workers: [],
    });
  });

  test("on Workers are policies that need no shared memory, and a fan-out its connections bear", () => {
    const config = checkConfig(goodConfig(), { platform: "workers" });
    expect(config.policy).toEqual({ prefill: "consistent-hash", decode: "consistent-hash" });
    expect(config.limits.fanout).toBe(3);
    const chosen = checkConfig(
      { ...goodConfig(), policy: { decode: "random" }, limits: { fanout: 2 } },
      { platform: "workers" },
    );
    expect(chosen.policy).toEqual({ prefill: "consistent-hash", decode: "random" });
    expect(chosen.limits.fanout).toBe(2);
  });
});

describe("every example of the documentation is taken", () => {
  test("pool, worker, key, region, store and telemetry settings", () => {
    const config = checkConfig({
      models: [
        {
          id: "demo-model",
          aliases: ["gpt-x"],
          adapters: ["my-lora"],
          pools: [
            {
              name: "default",
              engine: "vllm",
              connector: "nixl-push",
              region: "eu-west",
              cancel: "deferred",
              prefill: [
                {
                  url: "http://127.0.0.1:30002",
                  name: "p1",
                  weight: 0.5,
                  apiKeyEnv: "P_KEY",
                  bootstrapHost: "::1",
                  bootstrapPort: 8999,
                  dpSize: 2,
                  engineId: "e",
                  kvHost: "10.0.0.1",
                  kvPort: 5601,
                  tpSize: 2,
                  ppSize: 2,
                },
              ],
              decode: [{ url: "http://127.0.0.1:30001" }],
              workers: [{ url: "http://127.0.0.1:30003" }],
            },
          ],
        },
      ],
      auth: {
        clientKeys: [
          {
            name: "team-a",
            keyEnv: "TEAM_A_KEY",
            models: ["demo-model", "gpt-x", "my-lora"],
            requestsPerMinute: 600,
            tokensPerMinute: 1_000_000,
            allowedRegions: ["eu-west"],
          },
        ],
        adminKeyEnv: "ROUTER_ADMIN_KEY",
      },
      regions: [{ name: "eu-west", latitude: 53.3, longitude: -6.3 }],
      location: { region: "eu-west" },
      geoHeader: "X-Client-Geo",
      store: { url: "redis://127.0.0.1:6379" },
      telemetry: { otlpUrl: "http://127.0.0.1:4318" },
    });
    expect(config.geoHeader).toBe("x-client-geo");
    expect(config.store).toEqual({ url: "redis://127.0.0.1:6379" });
    expect(config.models[0]!.pools[0]!.prefill[0]).toEqual({
      url: "http://127.0.0.1:30002",
      name: "p1",
      weight: 0.5,
      apiKeyEnv: "P_KEY",
      bootstrapHost: "[::1]",
      bootstrapPort: 8999,
      dpSize: 2,
      engineId: "e",
      kvHost: "10.0.0.1",
      kvPort: 5601,
      tpSize: 2,
      ppSize: 2,
    });
  });

  test("0 means off wherever it is documented", () => {
    const off = {
      timeouts: {
        connectMs: 0,
        prefillMs: 0,
        firstTokenMs: 0,
        idleMs: 0,
        totalMs: 0,
        tailMs: 0,
        settleMs: 0,
        handoffMs: 0,
        keepAliveMs: 0,
        shutdownMs: 0,
      },
      retries: { maxRetries: 0, backoffMs: 0, maxBackoffMs: 0, budget: 0, on429: false },
      disaggregation: { onNoPrefill: "reject", minPromptTokens: 0 },
    };
    const config = checkConfig({
      ...goodConfig(),
      ...off,
      limits: { queue: 0, queueMs: 0 },
      health: { intervalMs: 0 },
    });
    expect(config).toMatchObject({ ...off, limits: { queue: 0, queueMs: 0 }, health: { intervalMs: 0 } } as object);
  });

  test("policies in every router's spelling come out in ours", () => {
    const spelled = {
      round_robin: "round-robin",
      "round-robin": "round-robin",
      random: "random",
      power_of_two: "power-of-two",
      least_load: "least-load",
      cache_aware: "prefix-aware",
      "cache-aware": "prefix-aware",
      prefix_aware: "prefix-aware",
      consistent_hash: "consistent-hash",
      consistent_hashing: "consistent-hash",
      "consistent-hashing": "consistent-hash",
    } as const;
    for (const [theirs, ours] of Object.entries(spelled)) {
      expect(policyName(theirs)).toBe(ours);
      expect(checkConfig({ ...goodConfig(), policy: { prefill: theirs } }).policy.prefill).toBe(ours);
    }
    expect(policyName("toString")).toBeUndefined();
  });

  test("an sglang pool with aggregated workers may skip prefill; so may vllm without", () => {
    const disaggregation = { onNoPrefill: "decode-only", minPromptTokens: 20 };
    const sglang = goodConfig();
    sglang.models[0]!.pools[0]!["workers"] = ["http://w"];
    expect(checkConfig({ ...sglang, disaggregation }).disaggregation.minPromptTokens).toBe(20);
    const vllm = goodConfig();
    vllm.models[0]!.pools[0]!.engine = "vllm";
    expect(checkConfig({ ...vllm, disaggregation }).disaggregation.onNoPrefill).toBe("decode-only");
  });
});

describe("worker addresses", () => {
  const urlOf = (url: string) => {
    const config = goodConfig();
    config.models[0]!.pools[0]!.prefill = [url];
    const { url: normal, bootstrapHost } = checkConfig(config).models[0]!.pools[0]!.prefill[0]!;
    return [normal, bootstrapHost];
  };

  test("come out in one spelling, with the host that decode is told", () => {
    expect(urlOf("http://h:1/")).toEqual(["http://h:1", "h"]);
    expect(urlOf("HTTP://Host:80")).toEqual(["http://host", "host"]);
    expect(urlOf("https://h:443/base/path//")).toEqual(["https://h/base/path", "h"]);
    expect(urlOf("http://[0:0:0:0:0:0:0:1]:18001")).toEqual(["http://[::1]:18001", "[::1]"]);
    expect(urlOf("dns+http://engines.local:30000/")).toEqual(["dns+http://engines.local:30000", "engines.local"]);
  });
});

describe("names", () => {
  test("of workers run on through all pools and never collide with a chosen one", () => {
    const config = checkConfig({
      models: [
        {
          id: "a",
          pools: [
            { engine: "vllm", prefill: ["http://a", { url: "http://b", name: "prefill-1" }], decode: ["http://c"] },
            { engine: "vllm", prefill: ["http://a"], decode: ["http://c"], workers: ["http://d"] },
          ],
        },
        { id: "b", pools: [{ engine: "openai", workers: ["http://d"] }] },
      ],
    });
    const pools = config.models.flatMap((model) => model.pools);
    expect(pools.map((pool) => pool.name)).toEqual(["default", "pool-2", "default"]);
    const names = pools.flatMap((p) => [...p.prefill, ...p.decode, ...p.workers].map((w) => w.name));
    expect(names).toEqual(["prefill-1-2", "prefill-1", "decode-1", "prefill-3", "decode-2", "worker-1", "worker-2"]);
    expect(new Set(names).size).toBe(names.length);
  });
});
