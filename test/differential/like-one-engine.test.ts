import { describe, expect, test } from "bun:test";
import { dialectFor } from "../../src/engines/registry.ts";
import { bodyOf, byChoice, changedBy, expectClientBytes, gist, withoutIds, withoutRunningCounts } from "./compare.ts";
import { corpus, type Entry, echoCorpus, vllmCorpus } from "./corpus.ts";
import { pairOf, type Split, splits } from "./splits.ts";

/** What of the corpus an engine can split. */
function entriesFor({ engine, connector }: Split): Entry[] {
  const own = engine === "vllm" ? [...vllmCorpus, ...echoCorpus] : engine === "sglang" ? echoCorpus : [];
  return [...corpus, ...own].filter(({ api }) => dialectFor(engine, connector).splits.has(api));
}

test("the corpus is as large as it claims", () => {
  expect(new Set(corpus.map(({ api, members, model }) => api + members + model)).size).toBe(corpus.length);
  expect(corpus.length).toBeGreaterThanOrEqual(120);
});

describe.each(splits.map((split) => [split.name, split] as const))("%s answers as one engine would", (_name, split) => {
  // Caches fill with the corpus, in one order on both sides.
  const pair = pairOf(split);

  for (const entry of entriesFor(split)) {
    const model = entry.model ?? "demo-model";
    const engineModel = model === "alias" ? "demo-model" : model;
    for (const stream of [false, true]) {
      if (entry.only !== undefined && (entry.only === "stream") !== stream) continue;
      test(`${entry.api}, ${entry.name}${stream ? ", streamed" : ""}`, async () => {
        const sent = bodyOf(entry.api, model, entry.members, stream);
        pair.prefill.log.length = 0;
        pair.decode.log.length = 0;
        const { direct, routed } = await pair.ask(
          entry.api,
          bodyOf(entry.api, engineModel, entry.members, stream),
          sent,
        );
        const path = routed.headers.get("x-router-path");
        const [theirs, ours] = [withoutIds(await direct.text()), withoutIds(await routed.text())];
        expect([routed.status, routed.headers.get("content-type")]).toEqual([
          direct.status,
          direct.headers.get("content-type"),
        ]);
        expect(direct.status).toBe(200);
        const expected = model === "alias" ? renamed(theirs) : theirs;
        if (entry.several === true && stream) expect(byChoice(ours)).toEqual(byChoice(expected));
        else if (path === "prefill-only" && stream) expect(gist(ours)).toEqual(gist(expected));
        else expect(withoutRunningCounts(ours)).toBe(withoutRunningCounts(expected));
        for (const [role, { log }] of [
          ["prefill", pair.prefill],
          ["decode", pair.decode],
        ] as const) {
          const legs = log.filter(({ method }) => method === "POST");
          if (entry.several !== true) expect(legs).toHaveLength(role === "decode" && path === "prefill-only" ? 0 : 1);
          const parts = entry.several === true ? ["prompt", "n", "seed"] : [];
          for (const { body } of legs) {
            const changed = [...changedBy(split, role, sent), ...parts];
            expectClientBytes(body, sent, changed, model === "alias" ? "demo-model" : undefined);
          }
        }
      });
    }
  }

  test("nothing was read twice, late, from elsewhere or computed again, and nothing is left", () => {
    expect(pair.decode.stats).toMatchObject({
      reused: 0,
      expired: 0,
      mismatched: 0,
      failedReads: 0,
      poisoned: 0,
      local: 0,
      deaths: 0,
    });
    expect(pair.decode.stats.pulled).toBeGreaterThan(100);
    for (const worker of pair.router.services.fleet.workers()) expect(worker.load.requests).toBe(0);
  });
});

/** The client's name for the model wherever the engine's stands as the answer's model. */
function renamed(text: string): string {
  return text.replaceAll('"model":"demo-model"', '"model":"alias"');
}
