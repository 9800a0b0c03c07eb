/** The router as `serve` runs it, and a second port that tells what its process holds. Environment: ROUTER_CONFIG (JSON text), HEAP_PORT. */
import { heapStats } from "bun:jsc";
import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import { raiseConnectionCap } from "../../src/runtime/bun-connection-cap.ts";

export interface Held {
  heapMb: number;
  objects: number;
  maps: number;
}

raiseConnectionCap();
const router = createBunRouter({ config: JSON.parse(process.env.ROUTER_CONFIG ?? "{}"), sink: console.error });
serveBun(router);

/** Two collections: the first may leave what finalizers still hold. */
function tellHeld(): Response {
  Bun.gc(true);
  Bun.gc(true);
  const { heapSize, objectCount, objectTypeCounts } = heapStats();
  const held: Held = {
    heapMb: heapSize / 2 ** 20,
    objects: objectCount,
    maps: (objectTypeCounts.Map ?? 0) + (objectTypeCounts.Set ?? 0),
  };
  return Response.json(held);
}

Bun.serve({ hostname: "127.0.0.1", port: Number(process.env.HEAP_PORT), fetch: tellHeld });
