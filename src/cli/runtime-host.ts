import type { RouterHost } from "../runtime/server.ts";

/** The ways of the runtime this process runs on. Loaded on demand: each names things the others do not have. */
export async function runtimeHost(): Promise<RouterHost> {
  if ("Bun" in globalThis) return (await import("../runtime/bun.ts")).bunHost;
  if ("Deno" in globalThis) return (await import("../runtime/deno.ts")).denoHost;
  return (await import("../runtime/node.ts")).nodeHost;
}
