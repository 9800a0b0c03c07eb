import { expect, test } from "bun:test";
import { readSimulateFlags, UsageError } from "../../src/cli/simulate-flags.ts";

test("flags become an engine: role, ports, timing and faults", () => {
  const args =
    "--engine sglang --role prefill --port 3 --bootstrap-port 9001 --prefill-ms-per-token 0.5 --itl-ms 7 --fault reset@5ms --fault status:503*2";
  expect(readSimulateFlags(args.split(" "))).toMatchObject({
    port: 3,
    host: "127.0.0.1",
    idleCloseMs: 5000,
    engine: {
      engine: "sglang",
      role: "prefill",
      sidePort: 9001,
      timing: { prefillMsPerToken: 0.5, itlMs: 7 },
      faults: ["reset@5ms", "status:503*2"],
    },
  });
  expect(readSimulateFlags(["--help"])).toBe("help");
});

for (const [args, named] of [
  ["", "--engine"],
  ["--engine foo", "--engine"],
  ["--engine vllm --role both", "--role"],
  ["--engine openai --role prefill", "--role"],
  ["--engine vllm --port 70000", "--port"],
  ["--engine vllm --itl-ms -1", "itl-ms"],
  ["--engine vllm --dp-size 1.5", "--dp-size"],
  ["--engine vllm --fault explode", "--fault"],
  ["--engine vllm --unknown", "--unknown"],
] as const) {
  test(`"${args}" is bad usage that names ${named}`, () => {
    const read = () => readSimulateFlags(args.split(" ").filter((part) => part !== ""));
    expect(read).toThrow(UsageError);
    expect(read).toThrow(named);
  });
}
