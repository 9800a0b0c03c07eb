import { expect, test } from "bun:test";
import { Progress } from "../../src/cli/progress.ts";
import { explainReach } from "../../src/cli/reach.ts";

test("progress is one line that is written over, and taken away at the end", async () => {
  const written: string[] = [];
  const progress = new Progress((text) => written.push(text), "asking");
  const failed = progress.watch(Promise.reject(new Error("no")));
  await Promise.all([progress.watch(Promise.resolve(1)), failed.catch(() => {})]);
  progress.end();
  expect(written).toEqual(["asking: 0 of 1", "asking: 0 of 2", "asking: 1 of 2", "asking: 2 of 2", ""]);
});

test("without a terminal nothing is written", async () => {
  const progress = new Progress(undefined, "asking");
  expect(await progress.watch(Promise.resolve(1))).toBe(1);
  progress.end();
});

test("errors of reaching an engine say what they mean, others stay as they are", () => {
  expect(explainReach("ConnectionRefused")).toContain("nothing listens there");
  expect(explainReach("ENOTFOUND")).toContain("no address");
  expect(explainReach("status 401 for /v1/models")).toContain("apiKeyEnv");
  expect(explainReach("status 404 for /v1/models")).toContain("base path");
  expect(explainReach("no answer within 5000 ms")).toContain("busy");
  expect(explainReach("something else")).toBe("something else");
});
