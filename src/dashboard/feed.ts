import type { ClientSource } from "../attempt/answer.ts";
import type { FleetControl } from "../fleet/control.ts";
import type { Clock } from "../runtime/clock.ts";
import type { FleetChange } from "../telemetry/changes.ts";
import type { RequestRecord } from "../telemetry/record.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Fleet } from "../workers/fleet.ts";
import { modelCards } from "./cards.ts";
import { rowOf } from "./row.ts";
import type { MinuteCounts, RouterFacts, Update } from "./update.ts";

/** Quick enough to see a request run, slow enough that a viewer costs less than one request a second. */
export const TICK_MS = 500;
/** Of more running requests than these nobody can look at each; how many there are is told all the same. */
const MOST_RUNNING = 200;

const MINUTE_MS = 60_000;
const encoder = new TextEncoder();

export interface FeedDeps {
  telemetry: Pick<Telemetry, "recent" | "changes">;
  fleet: Fleet;
  control: Pick<FleetControl, "list">;
  clock: Clock;
  wallNow: () => number;
  queued: () => number;
  /** `idle`: shutting down, and nothing runs any more. */
  phase: () => "up" | "shutting down" | "idle";
  /** The viewer has shown the admin key. */
  trusted: boolean;
  facts: RouterFacts;
  keys: RowKeys;
  /** Asked before each event: a key that has been changed ends the stream. */
  allowed: () => Promise<boolean>;
}

/** Numbers that stand for records, the same for all viewers. */
export class RowKeys {
  readonly #keys = new WeakMap<RequestRecord, number>();
  #last = 0;

  of(record: RequestRecord): number {
    const known = this.#keys.get(record);
    if (known !== undefined) return known;
    this.#last += 1;
    this.#keys.set(record, this.#last);
    return this.#last;
  }
}

/**
 * One viewer's stream of updates as server-sent events. It is pulled: nothing is made before the viewer has read what came before, and
 * nothing at all when nobody looks. What has not changed since the viewer's last event is not sent again.
 */
export class DashboardFeed implements ClientSource {
  readonly #deps: FeedDeps;
  #seen = new Map<RequestRecord, string>();
  #models = "";
  #minutes = "";
  #changes: readonly FleetChange[] | undefined;
  #first = true;
  #over = false;
  #wake: (() => void) | undefined;

  constructor(deps: FeedDeps) {
    this.#deps = deps;
  }

  async next(): Promise<Uint8Array | undefined> {
    if (!this.#first) await this.#tick();
    if (this.#over || !(await this.#deps.allowed())) return undefined;
    const update = this.#update();
    this.#first = false;
    // The last word is that it is over; a connection kept open beyond it would only hold up the process.
    if (this.#deps.phase() === "idle") this.#over = true;
    return encoder.encode(`data: ${JSON.stringify(update)}\n\n`);
  }

  /** The viewer has left. */
  leave(): void {
    this.#over = true;
    this.#wake?.();
  }

  #tick(): Promise<void> {
    if (this.#over) return Promise.resolve();
    return new Promise((resolve) => {
      const stop = this.#deps.clock.after(TICK_MS, resolve);
      this.#wake = () => {
        stop();
        resolve();
      };
    });
  }

  #update(): Update {
    const { telemetry, clock, wallNow, queued, phase, facts, keys } = this.#deps;
    const { recent, changes } = telemetry;
    const now = clock.now();
    const running: RequestRecord[] = [];
    for (const record of recent.running()) {
      if (running.length === MOST_RUNNING) break;
      running.push(record);
    }
    const update: Update = {
      now: wallNow(),
      inProgress: recent.runningCount,
      queued: queued(),
      shuttingDown: phase() !== "up",
      running: running.map((record) => keys.of(record)),
    };
    if (this.#first) update.router = facts;
    this.#addModels(update, now);
    this.#addRequests(update, running);
    this.#addMinutes(update, now);
    if (this.#changes !== changes.last()) {
      this.#changes = changes.last();
      update.changes = this.#changes;
    }
    return update;
  }

  #addModels(update: Update, now: number): void {
    const { fleet, telemetry, control, trusted } = this.#deps;
    const models = modelCards(fleet, now, telemetry.changes, trusted ? control.list().workers : undefined);
    const text = JSON.stringify(models);
    if (text === this.#models) return;
    this.#models = text;
    update.models = models;
  }

  /** All of them are made anew each time (0.3 ms for 300): a finished request may still change, when its prefill tail ends. */
  #addRequests(update: Update, running: readonly RequestRecord[]): void {
    const { telemetry, keys, trusted } = this.#deps;
    const seen = new Map<RequestRecord, string>();
    const news = [];
    const shown = new Set([...telemetry.recent.failed(), ...telemetry.recent.finished(), ...running]);
    for (const record of shown) {
      const row = rowOf(record, keys.of(record), trusted);
      const text = JSON.stringify(row);
      seen.set(record, text);
      if (this.#seen.get(record) !== text) news.push(row);
    }
    this.#seen = seen;
    if (news.length > 0) update.requests = news;
  }

  #addMinutes(update: Update, now: number): void {
    const counts = this.#deps.telemetry.recent.minutes.last(now);
    const text = `${Math.floor(now / MINUTE_MS)} ${JSON.stringify(counts)}`;
    if (text === this.#minutes) return;
    this.#minutes = text;
    const from = update.now - (now % MINUTE_MS) - (counts.length - 1) * MINUTE_MS;
    update.minutes = { from: Math.round(from), counts } satisfies MinuteCounts;
  }
}
