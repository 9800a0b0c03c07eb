import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { type SimulatorServer, serveHandler } from "../../src/runtime/simulator-tcp.ts";
import { createSimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import { postChat, user } from "../clients/pair.ts";

/** Contract section 1 on real processes, from a checkout. */

const root = fileURLToPath(new URL("../..", import.meta.url));
const engines: Record<string, SimulatorServer> = {};

beforeAll(async () => {
  for (const engine of ["sglang", "vllm"] as const) {
    const common = { engine, fabric: createFabric(), timing: { prefillMsPerToken: 0.01, transferMs: 1, itlMs: 1 } };
    for (const role of ["prefill", "decode"] as const) {
      engines[`${engine}-${role}`] = await serveHandler(createSimulatedEngine({ ...common, role }).handle);
    }
    engines[`${engine}-aggregated`] = await serveHandler(
      createSimulatedEngine({ ...common, role: "aggregated", fabric: createFabric() }).handle,
    );
  }
});

afterAll(async () => {
  await Promise.all(Object.values(engines).map((engine) => engine.close()));
});

interface Run {
  child: Bun.Subprocess<"ignore", "pipe", "pipe">;
  out: () => string;
  err: () => string;
}

function run(args: readonly string[], env: Record<string, string> = {}): Run {
  const child = Bun.spawn([process.execPath, "src/cli.ts", ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const texts = { out: "", err: "" };
  const collect = async (stream: ReadableStream<Uint8Array>, name: "out" | "err") => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) texts[name] += decoder.decode(chunk, { stream: true });
  };
  void collect(child.stdout, "out");
  void collect(child.stderr, "err");
  return { child, out: () => texts.out, err: () => texts.err };
}

async function ended(running: Run): Promise<{ code: number; out: string; err: string }> {
  const code = await running.child.exited;
  await Bun.sleep(20);
  return { code, out: running.out(), err: running.err() };
}

const LISTENING = /^listening on http:\/\/127\.0\.0\.1:(\d+)$/gm;

async function serving(running: Run): Promise<string> {
  const end = performance.now() + 15_000;
  for (;;) {
    const port = new RegExp(LISTENING.source, "m").exec(running.out())?.[1];
    if (port !== undefined) return `http://127.0.0.1:${port}`;
    if (running.child.exitCode !== null || performance.now() > end) throw new Error(`${running.err()}${running.out()}`);
    await Bun.sleep(10);
  }
}

const url = (name: string) => engines[name]!.url;
const config = (more: object = {}) =>
  JSON.stringify({
    listen: { port: 0 },
    models: [
      {
        id: "demo-model",
        pools: [{ name: "p", engine: "vllm", prefill: [url("vllm-prefill")], decode: [url("vllm-decode")] }],
      },
    ],
    ...more,
  });

describe("quick-start flags, so that a start command can be carried over", () => {
  const starts: [what: string, args: () => string[], path: string][] = [
    [
      "sglang, bootstrap port, policies in their spelling, no model",
      () =>
        `--engine sglang --pd-disaggregation --prefill ${url("sglang-prefill")} 8998 --decode ${url("sglang-decode")} --policy cache_aware --prefill-policy round_robin --decode-policy power_of_two`.split(
          " ",
        ),
      "disaggregated",
    ],
    [
      "vllm, engine and model found by asking",
      () =>
        `--vllm-pd-disaggregation --prefill ${url("vllm-prefill")} --decode ${url("vllm-decode")} --policy consistent_hashing`.split(
          " ",
        ),
      "disaggregated",
    ],
    [
      "aggregated workers",
      () => `--engine vllm --model demo-model --worker-urls ${url("vllm-aggregated")} --policy least_load`.split(" "),
      "aggregated",
    ],
  ];
  for (const [what, args, path] of starts) {
    test(`${what}: one line says where it listens, it answers, and SIGTERM ends it with 0`, async () => {
      const running = run(["serve", "--host", "127.0.0.1", "--port", "0", ...args()]);
      try {
        const base = await serving(running);
        const response = await postChat(base, { messages: user("hi"), max_tokens: 4 });
        expect([response.status, response.headers.get("x-router-path")]).toEqual([200, path]);
        await response.text();
        running.child.kill("SIGTERM");
        const { code, out } = await ended(running);
        expect(code).toBe(0);
        expect(out.match(LISTENING)).toHaveLength(1);
      } finally {
        running.child.kill("SIGKILL");
      }
    });
  }
});

describe("exit codes", () => {
  const usages = [["frobnicate"], ["serve", "--no-such-flag"], ["serve", "--port"], ["serve", "--port", "x"], []];
  test("2 for bad usage, on stderr", async () => {
    const all = await Promise.all(usages.map((args) => ended(run(args, { ROUTER_CONFIG: "" }))));
    for (const [at, { code, err, out }] of all.entries()) {
      expect({ args: usages[at], code, out }).toEqual({ args: usages[at], code: 2, out: "" });
      expect(err.length).toBeGreaterThan(0);
    }
  });

  test("1 for a bad configuration, wherever it comes from; stderr names the field and nothing listens", async () => {
    const bad: [env: Record<string, string>, field: string][] = [
      [{ ROUTER_CONFIG: config({ timeouts: { idleMs: -1 } }) }, "timeouts.idleMs"],
      [{ ROUTER_CONFIG: config({ timeout: {} }) }, "timeout"],
      [{ ROUTER_CONFIG: '{"models":[]}' }, "models"],
      [{ ROUTER_CONFIG: config({ auth: { adminKeyEnv: "NOT_THERE" } }) }, "auth.adminKeyEnv"],
      [{ ROUTER_CONFIG: config({ auth: { adminKeyEnv: "EMPTY" } }), EMPTY: "" }, "auth.adminKeyEnv"],
      [
        {
          ROUTER_CONFIG_1: config({ policy: { decode: "best" } }).slice(0, 40),
          ROUTER_CONFIG_2: config({ policy: { decode: "best" } }).slice(40),
        },
        "policy.decode",
      ],
    ];
    for (const command of ["serve", "check"]) {
      const all = await Promise.all(bad.map(([env]) => ended(run([command], env))));
      for (const [at, { code, out, err }] of all.entries()) {
        expect({ command, field: bad[at]![1], code }).toEqual({ command, field: bad[at]![1], code: 1 });
        expect(err).toContain(bad[at]![1]);
        expect(out).not.toContain("listening on");
        expect(err).not.toMatch(/\n\s+at /);
      }
    }
  });

  test("shutdownMs 0: SIGTERM ends a running stream at once with a frame, exit code 0", async () => {
    const running = run(["serve"], { ROUTER_CONFIG: config({ timeouts: { shutdownMs: 0 } }) });
    try {
      const base = await serving(running);
      const response = await postChat(base, { messages: user("hi"), stream: true, max_tokens: 100_000 });
      const reader = response.body!.getReader();
      await reader.read();
      const from = performance.now();
      running.child.kill("SIGTERM");
      let text = "";
      const decoder = new TextDecoder();
      for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
        text += decoder.decode(value, { stream: true });
      }
      expect(text).toMatch(/data: \{"error":\{[^\n]*"code":"shutting_down"[^\n]*\n\ndata: \[DONE\]\n\n$/);
      const { code } = await ended(running);
      expect(code).toBe(0);
      expect(performance.now() - from).toBeLessThan(3_000);
    } finally {
      running.child.kill("SIGKILL");
    }
  });

  test("check: 0 and what it would route for a good one, engines asked", async () => {
    const { code, out } = await ended(run(["check"], { ROUTER_CONFIG: config() }));
    expect(code).toBe(0);
    expect(out).toContain("demo-model");
    expect(out).toContain("vllm");
  });

  test("--help and --version are 0", async () => {
    const [help, version] = await Promise.all([ended(run(["--help"])), ended(run(["--version"]))]);
    expect([help.code, version.code]).toEqual([0, 0]);
    for (const word of ["serve", "check", "simulate", "demo", "--config", "--worker-urls", "--prefill-policy"]) {
      expect(help.out).toContain(word);
    }
    expect(version.out.trim()).toMatch(/^\S*\d+\.\d+\.\d+/);
  });
});
