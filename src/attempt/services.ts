import type { RouterConfig } from "../config/schema.ts";
import type { Transport } from "../legs/transport.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Fleet } from "../workers/fleet.ts";

/** What every attempt needs of the router's surroundings. */
export interface Services {
  config: RouterConfig;
  fleet: Fleet;
  transport: Transport;
  clock: Clock;
  telemetry: Telemetry;
  random: () => number;
}
