import type { PrefillRouter } from "../../src/create-router.ts";
import { settled } from "../manual-clock.ts";
import type { World } from "../regions/world.ts";

/** Time passes as on a server: what is due is looked for ten times a second. */
export async function pass(world: World, all: readonly PrefillRouter[], ms: number): Promise<void> {
  for (let at = 0; at < ms; at += 100) {
    // Signatures are made beside the event loop: real time has to pass for them, a little.
    await Promise.race([Promise.all(all.map((router) => router.control.tend())), Bun.sleep(100)]);
    await settled();
    await world.clock.advance(100);
  }
}
