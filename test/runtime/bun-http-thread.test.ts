import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";

const MODULE = fileURLToPath(new URL("../../src/runtime/bun-http-thread.ts", import.meta.url));

/** In a process of its own: here the thread has long been started. */
const PROGRAM = `
  const { readdirSync, readFileSync } = await import("node:fs");
  const { startHttpThread } = await import(${JSON.stringify(MODULE)});
  await startHttpThread();
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("served") });
  const said = await (await fetch(server.url)).text();
  const policies = {};
  for (const id of readdirSync("/proc/self/task")) {
    const stat = readFileSync("/proc/self/task/" + id + "/stat", "utf8");
    const name = stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
    // Field 41 of proc_pid_stat(5), counted from the third, which follows the name.
    policies[name] = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[38]);
  }
  console.log(JSON.stringify({ said, main: policies[readFileSync("/proc/self/comm", "utf8").trim()], http: policies["HTTP Client"] }));
  process.exit(0);
`;

test.skipIf(process.platform !== "linux")(
  "the HTTP client thread waits for its turn (SCHED_BATCH), the JavaScript thread is as it was, and requests are served",
  async () => {
    const child = Bun.spawn([process.execPath, "-e", PROGRAM], { stdout: "pipe", stderr: "inherit" });
    expect(JSON.parse(await new Response(child.stdout).text())).toEqual({ said: "served", main: 0, http: 3 });
  },
);
