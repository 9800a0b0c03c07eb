import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const rows = readFileSync(join(ROOT, "SECURITY.md"), "utf8")
  .split("\n")
  .filter((line) => /^\| (client|worker|neighbour) \|/.test(line))
  .map((line) => line.split("|").map((cell) => cell.trim()));

test("every threat names who, what, what stops it, and a test that exists", () => {
  expect(rows.length).toBeGreaterThan(15);
  for (const [, who, tries, stops, shown] of rows) {
    expect(["client", "worker", "neighbour"]).toContain(who!);
    expect(tries!.length * stops!.length).toBeGreaterThan(0);
    const [, file, name] = /^`(test\/[^`]+)`(?: "(.+)")?$/.exec(shown!) ?? [];
    expect({ shown, exists: file !== undefined && existsSync(join(ROOT, file)) }).toEqual({ shown, exists: true });
    if (name !== undefined) {
      const source = readFileSync(join(ROOT, file!), "utf8");
      expect({ name, there: source.includes(`"${name}"`) }).toEqual({ name, there: true });
    }
  }
});

test("every test of security shows something that the table names", () => {
  const table = rows.map((row) => row.at(-2)).join("\n");
  for (const name of ["keys", "routes", "upstream", "limits", "labels", "injection", "secrets", "cors"]) {
    expect(table).toContain(`test/security/${name}.test.ts`);
  }
});
