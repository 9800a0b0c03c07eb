import { expect, test } from "bun:test";
import type { PrefillRouter } from "../../src/create-router.ts";
import { readReport, writeReport } from "../../src/shared/load-report.ts";
import { divideMarks } from "../../src/shared/mark-records.ts";
import { type Mark, readMarks } from "../../src/shared/marks.ts";
import { MOST_TEXT } from "../../src/shared/store.ts";
import { call } from "../fleet/house.ts";
import { World } from "../regions/world.ts";
import { Link, memoryOn } from "./links.ts";
import { pass } from "./pass.ts";

const host = (n: number) => `vllm-decode-large-${n}.vllm-decode-large.inference.svc.cluster.local`;

function joinOf(n: number, more: object = {}): Mark {
  const url = `http://${host(n)}:8000`;
  const settings = { url, name: `d${n}`, weight: 1, bootstrapHost: host(n), kvPort: 5600, tpSize: 1, ppSize: 1 };
  return { worker: `d${n}`, url, at: 1_000 + n, what: "join", role: "decode", settings: { ...settings, ...more } };
}

const newestFirst = (marks: Mark[]) => marks.sort((a, b) => b.at - a.at);

async function joinMany(router: PrefillRouter, count: number, more: object = {}): Promise<void> {
  const body = { model_id: "m", pool: "us-east", worker_type: "decode", ...more };
  for (let n = 0; n < count; n++) {
    await call(router, "POST", "/workers", { ...body, name: `large-${n}`, url: `http://${host(n)}:8000` });
  }
}

test("however many workers have joined by one router, the others learn of all, and of the next drain", async () => {
  const world = new World();
  const store = memoryOn(world.clock);
  const all = [world.router({}, { store }), world.router({}, { store })] as const;
  await pass(world, all, 500);
  await joinMany(all[0], 700);
  await call(all[0], "POST", "/workers/large-3/drain");
  await call(all[0], "POST", "/workers/d1-us-east/drain");
  await pass(world, all, 3_500);
  const { fleet } = all[1].services;
  expect(fleet.workers().filter(({ origin }) => origin === "api")).toHaveLength(699);
  expect(fleet.worker("d1-us-east")!.draining).toBeTrue();
});

test("marks for which there is no room are told of in the log, once, and again when there is", async () => {
  const world = new World();
  const store = memoryOn(world.clock);
  const lines: string[] = [];
  const first = world.router({ log: { level: "info" } }, { store, sink: (line) => lines.push(line) });
  const all = [first, world.router({}, { store })] as const;
  const told = () => lines.map((line) => JSON.parse(line)).filter(({ event }) => event === "marks_untold");
  await pass(world, all, 500);
  await joinMany(first, 36, { engine_id: "e".repeat(30_000) });
  await pass(world, all, 3_500);
  await call(first, "POST", "/workers/d1-us-east/drain");
  await pass(world, all, 3_500);
  expect(told()).toMatchObject([{ level: "warn", model: "m", pool: "us-east", marks: 12 }]);
  const joined = all[1].services.fleet.workers().filter(({ origin }) => origin === "api");
  expect(joined.map(({ name }) => name)).toEqual(Array.from({ length: 24 }, (_, n) => `large-${12 + n}`));
  expect(all[1].services.fleet.worker("d1-us-east")!.draining).toBeTrue();
  // Taken out by the other: this router has nothing to say of them any more, and its records are emptied.
  for (const { name } of joined) await call(all[1], "DELETE", `/workers/${name}`);
  await pass(world, all, 70_000);
  expect(told().map(({ level, marks }) => [level, marks])).toEqual([
    ["warn", 12],
    ["info", 0],
  ]);
  const { records } = await store.exchange("m/us-east", [], 0);
  expect(records.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(13 * 31_000);
});

test("drains are told before all else, then the latest; no record is longer than stores keep", () => {
  const drain = (n: number): Mark => ({ worker: `p${n}`, url: `http://p${n}:1`, at: n, what: "drain" });
  const marks = newestFirst([...Array.from({ length: 9_000 }, (_, n) => joinOf(n)), drain(1), drain(2)]);
  const { texts, untold } = divideMarks(marks);
  expect(texts).toHaveLength(8);
  for (const text of texts) expect(text.length + 65).toBeLessThan(MOST_TEXT);
  const read = texts.flatMap((text) => readMarks(text)!);
  expect(read.length).toBeGreaterThan(2_000);
  expect(read.map(({ worker }) => worker)).toEqual([
    "p2",
    "p1",
    ...marks.slice(0, read.length - 2).map(({ worker }) => worker),
  ]);
  expect(read.length + untold).toBe(marks.length);
});

test("what a join leaves out is what its reader puts in", () => {
  const plain = joinOf(1);
  const set = joinOf(2, {
    weight: 2,
    bootstrapHost: "other",
    bootstrapPort: 1,
    dpSize: 2,
    kvPort: 1,
    tpSize: 8,
    ppSize: 2,
  });
  const read = divideMarks([set, plain]).texts.flatMap((text) => readMarks(text)!);
  const unnamed = ({ settings, ...mark }: Mark) => ({ ...mark, settings: { ...settings!, name: undefined } });
  expect(read.map(unnamed)).toEqual([set, plain].map(unnamed));
});

test("an address that no router would read is not told, and hides no other mark", () => {
  const long = `http://${"x".repeat(3_000)}:1`;
  const { texts, untold } = divideMarks([{ ...joinOf(1), url: long }, joinOf(2)]);
  expect([texts.flatMap((text) => readMarks(text)!).map(({ worker }) => worker), untold]).toEqual([["d2"], 1]);
  const mixed = JSON.stringify([
    { worker: "a", at: 1, what: "something new" },
    { worker: "b", at: 2, what: "drain" },
  ]);
  expect(readMarks(mixed)).toEqual([{ worker: "b", at: 2, what: "drain" }]);
});

test("a name that one router sets free and another gives anew is followed, in whatever order their records are read", async () => {
  const world = new World();
  const store = memoryOn(world.clock);
  const links = [1, 2, 3].map(() => new Link(store, world.clock));
  const all = links.map((store) => world.router({}, { store }));
  const body = { model_id: "m", pool: "us-east", worker_type: "decode", name: "new" };
  await pass(world, all, 500);
  await call(all[1]!, "POST", "/workers/p1-us-east/drain");
  await pass(world, all, 2_000);
  await call(all[0]!, "POST", "/workers", { ...body, url: "http://one.us-east:1" });
  await pass(world, all, 3_500);
  links[2]!.state = "refused";
  await call(all[0]!, "DELETE", "/workers/new");
  await pass(world, all, 3_500);
  await call(all[1]!, "POST", "/workers", { ...body, url: "http://two.us-east:1" });
  await pass(world, all, 3_500);
  links[2]!.state = "up";
  await pass(world, all, 3_500);
  expect(all.map(({ services }) => services.fleet.worker("new")?.url)).toEqual(Array(3).fill("http://two.us-east:1"));
});

test("a report of very many workers is one that stores keep: beginnings of prompts are left out, then the idlest", () => {
  const name = (n: number) => `${"worker-with-a-long-name-".repeat(5)}${n}`;
  const workers = new Map(Array.from({ length: 2_000 }, (_, n) => [name(n), [n, 10 * n, 0] as const]));
  const prefixes = new Map([["w", [1, 2, 3]]]);
  const text = writeReport({ workers, prefixes });
  expect(text.length).toBeWithin(MOST_TEXT - 2_000, MOST_TEXT + 1);
  const read = readReport(text)!;
  expect([read.prefixes.size, read.workers.has(name(1_999)), read.workers.has(name(0))]).toEqual([0, true, false]);
});
