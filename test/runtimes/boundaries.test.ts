import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./process.ts";

/** What only one runtime has, as code would name it. Comments and strings may speak of it. */
const OWN = [
  /\bBun\s*[.[]/,
  /\bDeno\s*[.[]/,
  /\bprocess\s*[.[]/,
  /from "node:/,
  /import\("node:/,
  /from "bun(?::|")/,
  /\b__dirname\b/,
];

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sources(path);
    return /\.[cm]?tsx?$/.test(entry.name) ? [path] : [];
  });
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}

test("nothing but src/runtime and src/cli names a runtime's own API", () => {
  const src = join(ROOT, "src");
  const found: string[] = [];
  for (const path of sources(src)) {
    const name = path.slice(src.length + 1);
    if (name.startsWith("runtime/") || name.startsWith("cli/") || name === "cli.ts") continue;
    const text = withoutComments(readFileSync(path, "utf8"));
    for (const pattern of OWN) if (pattern.test(text)) found.push(`${name}: ${pattern.exec(text)?.[0]}`);
  }
  expect(found).toEqual([]);
});

test("the portable entry reaches no file of one runtime", () => {
  const own =
    /runtime\/(?:bun|deno|node|workers|lambda|vercel|resolve-host|watch-file|simulator-\w+|bun-connection-cap)/;
  const seen = new Set<string>();
  const look = (path: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const [, target] of readFileSync(path, "utf8").matchAll(/^(?:import|export)\s[^;]*?from "(\.[^"]+)"/gms)) {
      if (target === undefined) continue;
      if (/\.tsx?$/.test(target)) look(join(path, "..", target));
    }
  };
  look(join(ROOT, "src", "index.ts"));
  expect(seen.size).toBeGreaterThan(60);
  expect([...seen].filter((path) => own.test(path))).toEqual([]);
});

test("the same version stands in package.json, deno.json and the code", async () => {
  const { version } = await import("../../src/version.ts");
  for (const file of ["package.json", "deno.json"]) {
    expect([file, JSON.parse(readFileSync(join(ROOT, file), "utf8")).version]).toEqual([file, version]);
  }
});
