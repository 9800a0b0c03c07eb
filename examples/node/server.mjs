// The router on Node 22 or newer: `node examples/node/server.mjs`, with PREFILL, DECODE and PORT.
import { createRouter, serveNode } from "prefill-router/node";

const { PREFILL = "http://127.0.0.1:30000", DECODE = "http://127.0.0.1:30001", PORT = "8000" } = process.env;
const pool = { engine: "sglang", prefill: [{ url: PREFILL }], decode: [{ url: DECODE }] };
const listen = { host: "127.0.0.1", port: Number(PORT) };
const router = createRouter({ config: { listen, models: [{ id: "sg", pools: [pool] }] }, sink: console.log });

const server = await serveNode(router);
console.log(`listening on http://127.0.0.1:${server.port}`);

process.once("SIGTERM", async function drain() {
  await router.shutdown(30_000);
  await server.stop(1_000);
});
