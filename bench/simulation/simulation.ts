import { RetryBudget } from "../../src/workers/retry-budget.ts";
import { seeded } from "../../test/workers/fixtures.ts";
import type { Chooser, Placed } from "./chooser.ts";
import { Agenda } from "./events.ts";
import { Figures } from "./figures.ts";
import { POPS, REGIONS } from "./places.ts";
import { DAY_MS, type Session, type Turn, Workload } from "./workload.ts";
import { World } from "./world.ts";

export interface Plan {
  seed: number;
  /** New conversations a second, averaged over the day and the world. */
  sessionsPerSecond: number;
  /** Milliseconds of the simulated day that are run, after the warm-up. */
  lengthMs: number;
  /** Regions that lose a share of their workers (1 = all) for a while. */
  outages: readonly { region: string; at: number; ms: number; share: number }[];
}

export const WARM_UP_MS = 60_000;
/** As the router's own defaults. */
const MAX_RETRIES = 2;
const BACKOFF_MS = 50;
const BUDGET = 0.2;

/** Plays one day with one way to choose. The same plan and chooser give the same figures, to the last digit. */
export function simulate(plan: Plan, chooserOf: (world: World) => Chooser): Figures {
  const agenda = new Agenda();
  const world = new World(agenda, seeded(plan.seed));
  const workload = new Workload(seeded(plan.seed + 1));
  const arrivals = seeded(plan.seed + 2);
  const chooser = chooserOf(world);
  const figures = new Figures(chooser.name, world);
  const budgets = POPS.map(() => new RetryBudget(BUDGET));
  const end = WARM_UP_MS + plan.lengthMs;

  for (const { region, at, ms, share } of plan.outages) {
    const index = REGIONS.findIndex(({ name }) => name === region);
    agenda.at(WARM_UP_MS + at, () => world.kill(index, share));
    agenda.at(WARM_UP_MS + at + ms, () => world.restore(index));
  }
  agenda.at(0, arrive);
  agenda.at(WARM_UP_MS, () => figures.begin(chooser.store));
  for (let at = WARM_UP_MS; at < end; at += 1_000) agenda.at(at, () => figures.sample());
  agenda.runUntil(end);
  figures.end(chooser.store, plan.lengthMs);
  return figures;

  function arrive(): void {
    ask(workload.begin(agenda.now));
    const rate = (plan.sessionsPerSecond * Workload.worldBusy(agenda.now % DAY_MS)) / 0.625 / 1_000;
    agenda.at(agenda.now - Math.log(1 - arrivals()) / rate, arrive);
  }

  function ask(session: Session): void {
    const turn = workload.next(session);
    budgets[turn.pop]!.request(agenda.now);
    const over = () => {
      if (session.turn < session.turns) agenda.at(agenda.now + workload.thinkMs(), () => ask(session));
    };
    attempt(turn, agenda.now, new Set(), 0, over);
  }

  /** One try; the next one as the router makes it: in another region, out of the shared budget, after a pause. */
  function attempt(turn: Turn, since: number, failed: Set<number>, tries: number, over: () => void): void {
    const placed = chooser.choose(turn, failed);
    if (placed === undefined) {
      figures.lost(turn);
      return;
    }
    const { region } = placed;
    let prefillHeld = true;
    const fail = (who: "prefill" | "decode") => {
      placed.failed(who);
      if (prefillHeld) placed.releasePrefill();
      placed.releaseDecode();
      failed.add(region);
      if (tries >= MAX_RETRIES || !budgets[turn.pop]!.take(agenda.now)) {
        figures.lost(turn);
        return;
      }
      figures.retried();
      agenda.at(agenda.now + BACKOFF_MS * 2 ** tries, () => attempt(turn, since, failed, tries + 1, over));
    };
    const sentAt = agenda.now;
    const rtt = world.rtt(turn.pop, region);
    agenda.at(sentAt + rtt / 2, () => {
      const engine = world.prefill[region]![placed.prefill]!;
      if (!engine.up) {
        agenda.at(agenda.now + rtt / 2, () => fail("prefill"));
        return;
      }
      const waitMs = Math.max(0, engine.busyUntil - agenda.now);
      const { doneAt, cached } = engine.take(turn, agenda.now);
      figures.prefilled(turn, cached, region, waitMs);
      let dead = false;
      const unwatch = world.watch(region, () => {
        dead = true;
        agenda.at(agenda.now + rtt / 2, () => fail("prefill"));
      });
      agenda.at(doneAt + rtt / 2, () => {
        unwatch();
        if (dead) return;
        placed.prefilled(agenda.now - sentAt);
        placed.releasePrefill();
        prefillHeld = false;
        decode(turn, since, placed, fail, over);
      });
    });
  }

  function decode(turn: Turn, since: number, placed: Placed, fail: (who: "decode") => void, over: () => void): void {
    const { region } = placed;
    const sentAt = agenda.now;
    const rtt = world.rtt(turn.pop, region);
    agenda.at(sentAt + rtt / 2, () => {
      const engine = world.decode[region]![placed.decode]!;
      if (!engine.up) {
        agenda.at(agenda.now + rtt / 2, () => fail("decode"));
        return;
      }
      let state: "waiting" | "open" | "dead" | "over" = "waiting";
      const unwatch = world.watch(region, () => {
        if (state === "waiting") agenda.at(agenda.now + rtt / 2, () => fail("decode"));
        if (state === "open") {
          placed.releaseDecode();
          figures.broken();
        }
        state = "dead";
      });
      agenda.at(agenda.now + engine.firstTokenMs() + rtt / 2, () => {
        if (state === "dead") return;
        state = "open";
        placed.answered(agenda.now - sentAt);
        figures.firstToken(turn, region, agenda.now - since);
      });
      engine.take(turn, agenda, () => {
        if (state === "dead") return;
        agenda.at(agenda.now + rtt / 2, () => {
          if (state === "dead") return;
          state = "over";
          unwatch();
          placed.releaseDecode();
          over();
        });
      });
    });
  }
}
