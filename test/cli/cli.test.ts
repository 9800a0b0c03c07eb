import { describe, expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };

const root = fileURLToPath(new URL("../..", import.meta.url));

/** One real process: what a person at a terminal gets. */
function run(command: string[], env: Record<string, string> = {}): { code: number; out: string; err: string } {
  const done = Bun.spawnSync(command, { cwd: root, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
  return { code: done.exitCode, out: done.stdout.toString(), err: done.stderr.toString() };
}

const cli = (args: string[], env?: Record<string, string>) => run([process.execPath, "src/cli.ts", ...args], env);

describe("exit codes", () => {
  test("0 for --help and --version, on stdout", () => {
    const help = cli(["--help"]);
    expect([help.code, help.err]).toEqual([0, ""]);
    expect(help.out).toContain("usage: prefill-router serve");
    expect(cli(["--version"])).toEqual({ code: 0, out: `${manifest.version}\n`, err: "" });
  });

  test("2 for bad usage, with the usage on stderr", () => {
    const { code, out, err } = cli(["serve", "--bogus"]);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toStartWith("unknown flag --bogus of serve\n");
    expect(err).toContain("usage: prefill-router serve");
  });

  test("1 for a bad configuration, naming the field, without a stack trace", () => {
    const { code, out, err } = cli(["check"], { ROUTER_CONFIG: "{ models: [], timeoutz: {} }" });
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain('timeoutz: unknown key (did you mean "timeouts"?)');
    expect(err).not.toContain("    at ");
  });

  test("1 for a port that is taken, naming it, without a stack trace", () => {
    const other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
    const { port } = other;
    const workers = ["--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2"];
    const { code, out, err } = cli(["serve", "--engine", "sglang", "--model", "m", ...workers, "--port", String(port)]);
    other.stop(true);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toStartWith(`cannot listen on 127.0.0.1:${port}: `);
    expect(err).not.toContain("    at ");
  });

  test("0 for a valid one", () => {
    const pool = '{ engine: vllm, prefill: ["http://a"], decode: ["http://b"] }';
    const { code, err } = cli(["check", "--offline"], { ROUTER_CONFIG: `models: [{ id: m, pools: [${pool}] }]` });
    expect([code, err]).toEqual([0, ""]);
  });
});

describe("the package's command", () => {
  test("hands over to the installed Bun, arguments, output and exit code alike", () => {
    expect(run(["node", "bin/prefill-router.mjs", "--version"])).toEqual({
      code: 0,
      out: `${manifest.version}\n`,
      err: "",
    });
    expect(run(["node", "bin/prefill-router.mjs", "serve", "--bogus=a b"]).code).toBe(2);
  });

  test("runs in place under Bun", () => {
    expect(run([process.execPath, "bin/prefill-router.mjs", "--version"]).out).toBe(`${manifest.version}\n`);
  });
});
