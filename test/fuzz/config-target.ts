import { readFileSync } from "node:fs";
import { ConfigError, parseConfig, resolveSecrets } from "../../src/config/load.ts";
import { texts } from "./mutate.ts";
import { check, type Target } from "./target.ts";

const decoder = new TextDecoder();
const everyKey = readFileSync(new URL("../config/every-key.yaml", import.meta.url), "utf8");
const dense = `listen: { host: "::1", port: 8000 }
models:
  - id: m
    aliases: [a, b]
    pools:
      - { name: p, engine: sglang, prefill: [{ url: "http://[::1]:1/base/", name: p1, bootstrapPort: 8998 }], decode: ["http://h:2"], workers: [http://h:3] }
  - { id: n, pools: [{ engine: vllm, connector: nixl, prefill: ["dns+http://h:4"], decode: [{ url: "http://h:5", weight: 2, apiKeyEnv: K }] }] }
auth: { clientKeys: [{ name: a, keyEnv: K1, models: [m] }], adminKeyEnv: K2 }
policy: { prefill: cache_aware, decode: round_robin }
`;

/** Text of any kind is a configuration, or a `ConfigError` that names what is wrong; and what was accepted is accepted again. */
export const configTarget: Target = {
  name: "config",
  seeds: texts(everyKey, dense, JSON.stringify(parseConfig(dense))),
  words: texts(
    ...[
      ":",
      "- ",
      "{",
      "}",
      "[",
      "]",
      ",",
      "\n",
      "  ",
      "\t",
      "#",
      "&a ",
      "*a",
      "<<: *a",
      "!!js/function x",
      "!!binary ",
      "---\n",
      "|",
      ">",
      "? ",
    ],
    ...[
      "null",
      "~",
      "true",
      "1e999",
      "-1",
      "0x10",
      ".inf",
      ".nan",
      "9007199254740993",
      "__proto__",
      "constructor",
      "toString",
      '"',
      "'",
      "\u0000",
    ],
    ...["models", "pools", "url", "http://u:p@h", "dns+", "engine", "weight", "0", "\\u0000", "é", "\ufeff"],
  ),
  run(input, random) {
    const text = decoder.decode(input);
    const env = { K: "k1", K1: "k2", K2: random.next() < 0.5 ? "k3" : "k1" };
    try {
      const config = parseConfig(text, { platform: random.pick(["server", "workers"]) });
      check(config.models.length > 0, "a configuration without models");
      for (const model of config.models) {
        for (const pool of model.pools) {
          for (const { url } of [...pool.prefill, ...pool.decode, ...pool.workers]) {
            const { username, password } = new URL(url.replace(/^dns\+/, ""));
            check(username === "" && password === "", "an address with user info");
          }
        }
      }
      const again = parseConfig(JSON.stringify(config));
      check(Bun.deepEquals(again, config), "read again it is another one");
      resolveSecrets(config, env);
    } catch (error) {
      check(error instanceof ConfigError, `not a ConfigError: ${error instanceof Error ? error.stack : error}`);
      check(
        error.issues.length > 0 && error.issues.every(({ message }) => message !== ""),
        "an error that says nothing",
      );
    }
    check(
      ({} as Record<string, unknown>).polluted === undefined && Object.keys(Object.prototype).length === 0,
      "a prototype was written to",
    );
  },
};
