import { describe, expect, test } from "bun:test";
import type { PrefillRouter } from "../../src/create-router.ts";
import { METRIC } from "../../src/telemetry/names.ts";
import { call } from "../fleet/house.ts";
import { settled } from "../manual-clock.ts";
import { AT, ask, finish, type Told, World } from "../regions/world.ts";
import { sampleOf } from "../telemetry/hand-made.ts";
import { seeded } from "../workers/fixtures.ts";
import { Link, type LinkState, memoryOn } from "./links.ts";

const PLACES = Object.values(AT);

/** Three routers under traffic all the while; looked at ten times a second for counters that fall below zero. */
class Stage {
  readonly world = new World();
  readonly store = memoryOn(this.world.clock);
  readonly links = [0, 1, 2].map(() => new Link(this.store, this.world.clock));
  readonly routers: PrefillRouter[] = this.links.map((link, n) =>
    this.world.router({ location: { region: ["eu-west", "us-east", "ap-south"][n] } }, { store: link }),
  );
  readonly pending: Promise<Told>[] = [];
  lowest = 0;
  readonly #random = seeded(11);

  async pass(ms: number): Promise<void> {
    for (let at = 0; at < ms; at += 100) {
      for (const router of this.routers) {
        const number = this.pending.length;
        const from = PLACES[Math.floor(this.#random() * PLACES.length)]!;
        const session = `s${Math.floor(this.#random() * 40)}`;
        this.pending.push(ask(router, { from, session, content: `Question ${number}`, stream: number % 3 > 0 }));
      }
      // Signatures are made beside the event loop: real time has to pass for them. An exchange that hangs is not waited for.
      const tended = this.routers.map((router, n) => {
        const work = router.control.tend();
        return ["up", "refused"].includes(this.links[n]?.state ?? "up") ? work : Bun.sleep(2);
      });
      await Promise.all(tended);
      await settled();
      await this.world.clock.advance(100);
      for (const router of this.routers) {
        for (const { load, elsewhere } of router.services.fleet.workers()) {
          this.lowest = Math.min(this.lowest, load.requests, load.tokens, elsewhere.requests, elsewhere.tokens);
        }
      }
    }
  }

  /** What every router holds for true about the fleet, as text. */
  views(): string[] {
    return this.routers.map((router) =>
      router.control
        .list()
        .workers.map(({ name, draining }) => `${name}${draining ? " draining" : ""}`)
        .sort()
        .join(),
    );
  }

  async secondsToAgree(most: number): Promise<number> {
    for (let ms = 0; ms <= most; ms += 100) {
      if (new Set(this.views()).size === 1) return ms / 1_000;
      await this.pass(100);
    }
    return Number.POSITIVE_INFINITY;
  }

  /** No request was lost, none was let go of twice, and nothing is left over anywhere. */
  async settle(): Promise<void> {
    const told = await finish(this.world, this.pending);
    expect(told.filter(({ whole }) => !whole)).toEqual([]);
    expect(this.lowest).toBe(0);
    expect(this.world.load()).toBe(0);
    for (const { engines } of this.world.regions.values()) {
      for (const [host, engine] of engines) {
        expect([host, engine.inFlight]).toEqual([host, 0]);
        // Every hand-off was read once by its decode: none is left behind, none was asked for twice.
        if (engine.side !== undefined)
          expect([host, engine.side.heldGrants, engine.side.leakedGrants]).toEqual([host, 0, 0]);
      }
    }
  }
}

/** What a router's own metrics say of the store. */
function storeReached(router: PrefillRouter): number {
  return sampleOf(router.telemetry.metrics.render(), METRIC.storeReached);
}

const drain = (router: PrefillRouter, name: string) => call(router, "POST", `/workers/${name}/drain`);

describe("routers cut from the store, and so from each other", () => {
  test.each([["refused"], ["silent"], ["deaf"], ["slow"]] as [LinkState][])(
    "%s: no request is lost, and five seconds after it has healed all agree",
    async (state) => {
      const stage = new Stage();
      const { routers, links } = stage;
      await stage.pass(3_000);
      expect(new Set(stage.views()).size).toBe(1);
      links[0]!.state = state;
      links[1]!.state = state;
      await stage.pass(1_000);
      await drain(routers[0]!, "p1-eu-west");
      await drain(routers[1]!, "d1-us-east");
      await call(routers[1]!, "DELETE", "/workers/p2-ap-south");
      await drain(routers[2]!, "d2-eu-central");
      for (let n = 0; n < 5; n++) routers[2]!.services.fleet.worker("p1-us-east")!.failed(stage.world.clock.now());
      await stage.pass(15_000);
      // Nobody can know what nobody could say.
      if (state === "refused" || state === "silent") {
        expect(new Set(stage.views()).size).toBe(3);
        expect(routers.map(storeReached)).toEqual([0, 0, 1]);
      }
      for (const link of links) link.state = "up";
      expect(await stage.secondsToAgree(5_000)).toBeLessThanOrEqual(5);
      for (const name of ["p1-eu-west", "d1-us-east", "d2-eu-central"])
        expect(stage.views()[0]).toContain(`${name} draining`);
      expect(stage.views()[0]).not.toContain("p2-ap-south");
      expect(routers.map(storeReached)).toEqual([1, 1, 1]);
      await stage.settle();
    },
    60_000,
  );

  test("a store that splits in two, and whose one half is lost when it heals", async () => {
    const stage = new Stage();
    const { routers, links, world } = stage;
    await stage.pass(2_000);
    links[0]!.store = memoryOn(world.clock);
    await drain(routers[0]!, "p1-eu-west");
    await drain(routers[1]!, "p2-us-east");
    await stage.pass(12_000);
    expect(new Set(stage.views()).size).toBe(2);
    // Without a word: from one exchange to the next it is the other half.
    links[0]!.store = stage.store;
    expect(await stage.secondsToAgree(5_000)).toBeLessThanOrEqual(5);
    for (const name of ["p1-eu-west", "p2-us-east"]) expect(stage.views()[0]).toContain(`${name} draining`);
    await stage.settle();
  }, 60_000);

  test("two operators who contradict each other on two sides: the later word stands on both", async () => {
    const stage = new Stage();
    const { routers, links } = stage;
    await stage.pass(2_000);
    links[0]!.state = "silent";
    await drain(routers[1]!, "d1-eu-west");
    await stage.pass(1_000);
    await Bun.sleep(3);
    await call(routers[0]!, "DELETE", "/workers/d1-eu-west");
    await stage.pass(4_000);
    links[0]!.state = "up";
    expect(await stage.secondsToAgree(5_000)).toBeLessThanOrEqual(5);
    expect(stage.views()[0]).not.toContain("d1-eu-west");
    await stage.settle();
  }, 60_000);

  test("a store that has lost everything is told again what was drained", async () => {
    const stage = new Stage();
    const { routers, links, world } = stage;
    await stage.pass(1_500);
    await drain(routers[0]!, "p1-eu-west");
    await stage.pass(3_000);
    for (const link of links) link.state = "refused";
    await stage.pass(2_000);
    const empty = memoryOn(world.clock);
    for (const link of links) {
      link.store = empty;
      link.state = "up";
    }
    await stage.pass(3_000);
    const late = world.router({}, { store: empty });
    stage.routers.push(late);
    expect(await stage.secondsToAgree(3_000)).toBeLessThanOrEqual(3);
    expect(stage.views().at(-1)).toContain("p1-eu-west draining");
    await stage.settle();
  }, 60_000);
});
