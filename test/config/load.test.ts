import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { inertSettings } from "../../src/config/inert.ts";
import { configJsonSchema } from "../../src/config/json-schema.ts";
import { ConfigError, checkConfig, configFromEnv, parseConfig, resolveSecrets } from "../../src/config/load.ts";
import { nearest } from "../../src/config/nearest.ts";
import { goodConfig } from "./bad.ts";

const MODELS = 'models: [{ id: m, pools: [{ engine: sglang, prefill: ["http://a"], decode: ["http://b"] }] }]\n';

function failure(run: () => unknown): ConfigError {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return error as ConfigError;
  }
  throw new Error("the configuration was taken");
}

describe("text", () => {
  test("YAML and JSON, with tabs, a byte order mark and escapes, mean the same", () => {
    const fromYaml = parseConfig(MODELS);
    const value = { models: [{ id: "m", pools: [{ engine: "sglang", prefill: ["http://a"], decode: ["http://b"] }] }] };
    expect(parseConfig(JSON.stringify(value, null, "\t"))).toEqual(fromYaml);
    expect(parseConfig(`\uFEFF${JSON.stringify(value)}`)).toEqual(fromYaml);
    expect(parseConfig(JSON.stringify(value).replaceAll("/", "\\/"))).toEqual(fromYaml);
  });

  test("anchors and merge keys work", () => {
    expect(parseConfig(`${MODELS}log: { <<: { level: debug } }`).log).toEqual({ level: "debug", prompts: false });
  });

  for (const [what, text, part] of [
    ["neither", "{ this is : [ not yaml", "line 1"],
    ["a tab as indentation", "models: 1\n\tlog: 2", "line 2"],
    ["a key given twice, in JSON too", '{"models":[],\n"models":[]}', "line 2, column 1: Map keys must be unique"],
    ["a second document", `${MODELS}---\n${MODELS}`, "A second document begins here"],
    ["a tag nobody resolves", `${MODELS}log: { level: !env LEVEL }`, "!env"],
    ["nothing", "", "wanted a mapping with the key models, got nothing"],
    ["a list", "- 1", "got a list"],
    ["a cycle", "models: &a [*a]", "models[0]"],
    ["too long", " ".repeat(1_048_577), "1048576 characters"],
    ["nested beyond the stack", "[".repeat(100_000), "stack"],
    ["a prototype", `${MODELS}__proto__: { listen: {} }`, "__proto__: unknown key"],
    ["a key every object inherits", `${MODELS}toString: 1`, "toString: unknown key"],
  ] as const) {
    test(`${what} is refused in words`, () => {
      expect(failure(() => parseConfig(text)).message).toContain(part);
    });
  }

  test("an alias bomb is refused at once", () => {
    const bomb = [..."bcdefghij"].map((k, i) => `${k}: &${k} [${Array(9).fill(`*${"abcdefghij"[i]}`)}]`);
    const error = failure(() => parseConfig(`a: &a [x, x, x]\n${bomb.join("\n")}`));
    expect(error.message).toContain("Excessive alias count");
  });

  test("whatever the text, it is a configuration or a ConfigError", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        failure(() => parseConfig(text));
      }),
      { numRuns: 200 },
    );
  });

  test("whatever the value of any section, no check crashes", () => {
    const sections = Object.keys(configJsonSchema()["properties"] as object);
    fc.assert(
      fc.property(fc.constantFrom(...sections), fc.jsonValue(), (section, value) => {
        try {
          checkConfig({ ...goodConfig(), [section]: value });
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as ConfigError).issues[0]!.path).toStartWith(section);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("the environment", () => {
  test("ROUTER_CONFIG holds the text or a path", () => {
    expect(configFromEnv({})).toBeUndefined();
    expect(configFromEnv({ ROUTER_CONFIG: " " })).toBeUndefined();
    expect(configFromEnv({ ROUTER_CONFIG: '{"models":[]}' })).toEqual({ text: '{"models":[]}' });
    expect(configFromEnv({ ROUTER_CONFIG: "models: []" })).toEqual({ text: "models: []" });
    expect(configFromEnv({ ROUTER_CONFIG: "/etc/router.yaml" })).toEqual({ path: "/etc/router.yaml" });
    expect(configFromEnv({ ROUTER_CONFIG: "C:\\router.json" })).toEqual({ path: "C:\\router.json" });
    expect(configFromEnv({ ROUTER_CONFIG: "router.yaml" }, "workers")).toEqual({ text: "router.yaml" });
  });

  test("numbered parts are joined in the order of their numbers, and a gap is named", () => {
    const parts = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`ROUTER_CONFIG_${i + 1}`, `${i + 1},`]));
    expect(configFromEnv(parts)).toEqual({ text: "1,2,3,4,5,6,7,8,9,10,11," });
    expect(failure(() => configFromEnv({ ...parts, ROUTER_CONFIG_3: "" })).message).toContain("ROUTER_CONFIG_3: ");
    expect(failure(() => configFromEnv({ ...parts, ROUTER_CONFIG: "x" })).message).toContain("got both");
  });
});

describe("secrets", () => {
  const config = () =>
    checkConfig({
      models: [
        {
          id: "m",
          pools: [
            { engine: "vllm", prefill: [{ url: "http://a", name: "p1", apiKeyEnv: "P_KEY" }], decode: ["http://b"] },
            { engine: "vllm", name: "two", workers: [{ url: "http://c", apiKeyEnv: "P_KEY" }] },
          ],
        },
      ],
      auth: {
        clientKeys: [{ name: "team", keyEnv: "T_KEY", models: ["m"], requestsPerMinute: 5 }],
        adminKeyEnv: "A_KEY",
      },
      store: { url: "redis://h", passwordEnv: "S_KEY" },
    });
  const env = { P_KEY: "p-secret", T_KEY: "t-secret\n", A_KEY: "a-secret", S_KEY: "s-secret" };

  test("are looked up beside the configuration, which never holds one", () => {
    const held = config();
    const secrets = resolveSecrets(held, env);
    expect([...secrets.workerKeys]).toEqual([
      ["p1", "p-secret"],
      ["worker-1", "p-secret"],
    ]);
    expect(secrets.clientKeys).toEqual([{ name: "team", models: ["m"], requestsPerMinute: 5, key: "t-secret" }]);
    expect(secrets.adminKey).toBe("a-secret");
    expect(secrets.storePassword).toBe("s-secret");
    expect(JSON.stringify(held)).not.toContain("secret");
  });

  test("an empty or missing variable names field and variable", () => {
    const { message } = failure(() => resolveSecrets(config(), { T_KEY: "", A_KEY: "  " }));
    expect(message.split("\n")).toEqual([
      "models[0].pools[0].prefill[0].apiKeyEnv: the environment variable P_KEY is empty or missing",
      "models[0].pools[1].workers[0].apiKeyEnv: the environment variable P_KEY is empty or missing",
      "auth.clientKeys[0].keyEnv: the environment variable T_KEY is empty or missing",
      "auth.adminKeyEnv: the environment variable A_KEY is empty or missing",
      "store.passwordEnv: the environment variable S_KEY is empty or missing",
    ]);
  });

  test("no client can be admin by a shared key, and no value is shown", () => {
    const { message } = failure(() => resolveSecrets(config(), { ...env, A_KEY: "t-secret", P_KEY: "two\nlines" }));
    expect(message).toContain("auth.adminKeyEnv: the environment variable A_KEY holds the same key as T_KEY");
    expect(message).toContain("P_KEY has characters a header cannot carry");
    expect(message).not.toContain("t-secret");
    expect(message).not.toContain("lines");
  });

  test("none named means none needed", () => {
    expect(resolveSecrets(parseConfig(MODELS), {})).toEqual({ workerKeys: new Map(), clientKeys: [] });
  });
});

describe("settings without effect", () => {
  test("are named; a configuration whose settings all count has none", () => {
    expect(inertSettings(parseConfig(MODELS))).toEqual([]);
    const config = goodConfig();
    config.models[0]!.pools[0]!.prefill = [{ url: "http://a", bootstrapPort: 9000, engineId: "e" }];
    config.models[0]!.pools[0]!.decode = [{ url: "http://b", dpSize: 2 }];
    const lines = inertSettings(checkConfig({ ...config, geoHeader: "x-geo" }));
    expect(lines.map((line) => line.split(":")[0])).toEqual([
      "models[0].pools[0].prefill[0].engineId",
      "models[0].pools[0].decode[0].dpSize",
      "geoHeader",
    ]);
  });
});

describe("the JSON Schema for editors", () => {
  test("is up to date (bun scripts/config-schema.ts writes it)", () => {
    const file = new URL("../../docs/config.schema.json", import.meta.url);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(configJsonSchema());
  });

  test("knows every section, refuses unknown keys and takes a worker as text or object", () => {
    const schema = configJsonSchema() as { additionalProperties: unknown; $defs: { worker: { properties: object } } };
    expect(schema.additionalProperties).toBe(false);
    expect(Object.keys(schema.$defs.worker.properties)).toContain("bootstrapPort");
  });
});

describe("suggestions", () => {
  test("are for slips, not for anything", () => {
    const names = ["idleMs", "totalMs", "firstTokenMs", "timeouts"];
    expect(nearest("idlMs", names)).toBe("idleMs");
    expect(nearest("first_token_ms", names)).toBe("firstTokenMs");
    expect(nearest("banana", names)).toBeUndefined();
    expect(nearest("x".repeat(100_000), names)).toBeUndefined();
  });
});
