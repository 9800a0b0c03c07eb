import type { RouterConfig } from "../config/schema.ts";
import type { Transport } from "../legs/transport.ts";
import type { PoolChoice } from "../regions/choose-pools.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Fleet } from "../workers/fleet.ts";
import type { Worker } from "../workers/worker.ts";

/** Knowledge that a leg cannot do without (Mooncake: the engine id of a prefill worker). */
export interface Facts {
  /** Resolves when the engine has told it, or could not be asked; bounded in time, and never rejects. */
  introduce(worker: Worker): Promise<void>;
  /** Something went wrong with the worker: it may be another process now. */
  doubt(worker: Worker): void;
}

/** What every attempt needs of the router's surroundings. */
export interface Services {
  config: RouterConfig;
  fleet: Fleet;
  transport: Transport;
  clock: Clock;
  telemetry: Telemetry;
  random: () => number;
  /** Which pool of several a request goes to. */
  places: PoolChoice;
  /** What engines tell about themselves; absent where nobody asks them. */
  facts?: Facts;
}
