// The router as `deno serve` wants it, with PREFILL and DECODE (without `--host` it listens on all interfaces):
// `deno serve --allow-net --allow-env --host 127.0.0.1 --port 8000 examples/deno/server.ts`
// `deno serve` knows no drain: `deno task serve` and `serveDeno` do.
import { createRouter } from "prefill-router/deno";

declare const Deno: { env: { get(name: string): string | undefined } };

const PREFILL = Deno.env.get("PREFILL") ?? "http://127.0.0.1:30000";
const DECODE = Deno.env.get("DECODE") ?? "http://127.0.0.1:30001";
const pool = { engine: "sglang", prefill: [{ url: PREFILL }], decode: [{ url: DECODE }] };

const router = createRouter({ config: { models: [{ id: "sg", pools: [pool] }] }, sink: console.log });

export default { fetch: (request: Request) => router.fetch(request) };
