// The router inside a Bun server of one's own: `bun examples/bun/server.ts`, with PREFILL, DECODE and PORT.
import { createRouter } from "prefill-router/bun";

const { PREFILL = "http://127.0.0.1:30000", DECODE = "http://127.0.0.1:30001", PORT = "8000" } = process.env;
const pool = { engine: "sglang", prefill: [{ url: PREFILL }], decode: [{ url: DECODE }] };
const router = createRouter({ config: { models: [{ id: "sg", pools: [pool] }] }, sink: console.log });

// Bun drops connections that are silent for ten seconds unless it is told not to.
const server = Bun.serve({ hostname: "127.0.0.1", port: Number(PORT), idleTimeout: 0, fetch: router.fetch });
console.log(`listening on http://127.0.0.1:${server.port}`);

process.once("SIGTERM", async function drain() {
  await router.shutdown(30_000);
  await server.stop();
  process.exit(0);
});
