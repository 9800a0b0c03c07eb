import { afterAll, beforeAll, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { DeafWorker } from "../../runtimes/deaf.ts";

let seen: Record<string, unknown>;
const deaf = new DeafWorker();

beforeAll(async () => {
  await deaf.start();
  const node = join(import.meta.dir, "..", "..", "..", "node_modules", ".bin", "node");
  // Few files, so that there can be none left.
  const limited = ["-c", 'ulimit -n 512; exec "$0" "$@"', node, join(import.meta.dir, "node-cases.ts"), deaf.url];
  const child = spawn("sh", limited, {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  child.stdout.on("data", (bytes: Buffer) => {
    out += bytes;
  });
  await new Promise((resolve) => child.once("close", resolve));
  seen = JSON.parse(out);
});

afterAll(() => deaf.stop());

test.each([
  [
    "connections are kept and used again, and a request that wants a fresh one gets it",
    "keptAlive",
    {
      texts: ["ok", "ok", "ok"],
      requests: [3, 1],
      fresh: true,
      seen: [
        ["content-length", "2"],
        ["x-two", "a"],
        ["x-two", "b"],
      ],
      has: [true, false, null],
    },
  ],
  ["a request goes out as it is", "request", { line: "POST /v1/x HTTP/1.1", header: true, body: '{"a":"語"}' }],
  [
    "a header that cannot be sent is nobody's fault: it is thrown, and nothing is sent",
    "forbiddenHeader",
    ["TypeError", 0],
  ],
  [
    "an answer that comes before its request is sent leaves no connection behind",
    "answeredEarly",
    [413, "big", 2, true],
  ],
  ["each part of an answer is told when it comes", "parts", ["abc", "de", true]],
  ["interim answers are passed over", "interim", [200, "ok"]],
  [
    "a connection that does not open within connectMs is given up",
    "connectTimeout",
    { name: "ConnectTimeout", fault: "connect", inTime: true },
  ],
  ["a connection that is refused says so", "refused", "refused"],
  [
    "before the head: closed, reset, half a head, not HTTP",
    "beforeTheHead",
    ["reset", "reset", "reset", "reset", true],
  ],
  ["an engine may say 100 first", "continueFirst", [200, "ok"]],
  [
    "a body that ends with its connection: paused and then closed it comes whole, reset it does not",
    "openBody",
    [
      ["end", 100_000],
      ["failure", 100_000],
      ["failure", 3],
    ],
  ],
  ["an answer without a length that a reset has ended is none", "resetWithItsBytes", ["failure", "failure"]],
  ["nor is one that a reset has met while it was paused", "resetWhilePaused", "failure"],
  ["one that ends with its connection is whole, and the connection is closed", "endWithAByteUnread", ["whole", true]],
  ["where there are no files left no engine is to blame", "outOfFiles", ["internal", 200]],
  [
    "in the body: cut, short of its length, a wrong chunk: what came, then the failure, again and again",
    "inTheBody",
    [
      ["ab", true, true],
      ["ok", true, true],
      ["ab", true, true],
    ],
  ],
  ["closing closes the engine's side, and what is pending fails", "closing", ["reset", true, true, true]],
  ["closing before the connection is open", "closedBeforeItIsOpen", true],
  ["connects that are given up are taken back, and nothing is left of them", "givenUp", [100, 0]],
  ["an answer that nobody reads waits in the engine", "unread", [true, true]],
  ["an answer that came compressed is unpacked", "compressed", ["[1,2,3][", "[1,2,3][", "as it is"]],
])("%s", (_, name, expected) => {
  expect(seen[name]).toEqual(expected as never);
});
