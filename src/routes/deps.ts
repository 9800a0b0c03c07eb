import type { ClientSource } from "../attempt/answer.ts";
import type { BackgroundPort, Call } from "../attempt/call.ts";
import type { Services } from "../attempt/services.ts";
import type { Secrets } from "../config/load.ts";
import type { KeyRing } from "../middleware/key-ring.ts";
import type { Router } from "../router.ts";
import type { Admission } from "../workers/admission.ts";

/** What the routes are made of. One per app. */
export interface RouteDeps {
  services: Services;
  router: Router;
  admission: Admission;
  keys: KeyRing;
  secrets: Secrets;
  /** Calls whose response is not over; shutdown ends them. */
  calls: Set<Call>;
  shuttingDown(): boolean;
  /** A response body from a source; runtimes have faster ways than the portable one. */
  clientStream(source: ClientSource, left: () => void): BodyInit;
  background(context: { executionCtx?: unknown }): BackgroundPort;
}
