import type { ClientSource } from "../attempt/answer.ts";
import type { BackgroundPort } from "../attempt/call.ts";
import type { Services } from "../attempt/services.ts";
import type { Failure } from "../errors/failure.ts";
import type { FleetControl } from "../fleet/control.ts";
import type { KeyRing } from "../middleware/key-ring.ts";
import type { RateLimits } from "../middleware/rate-limits.ts";
import type { Router } from "../router.ts";
import type { Admission } from "../workers/admission.ts";

/** A request in progress, as shutdown sees it. */
export interface Running {
  /** Ends it from outside; what can still be told to its client is this failure. */
  stop(why: Failure): void;
}

/** What the routes are made of. One per app. */
export interface RouteDeps {
  services: Services;
  router: Router;
  admission: Admission;
  keys: KeyRing;
  rateLimits: RateLimits;
  control: FleetControl;
  /** Requests to engines whose response is not over; shutdown ends them. */
  calls: Set<Running>;
  shuttingDown(): boolean;
  /** The time of those who were let in before the shutdown is up: what whoever comes now has to be told. */
  ended(): Failure | undefined;
  /** A response body from a source; runtimes have faster ways than the portable one. */
  clientStream(source: ClientSource, left: () => void): BodyInit;
  background(context: { executionCtx?: unknown }): BackgroundPort;
}
