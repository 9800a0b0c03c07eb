import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "yaml";
import manifest from "../package.json" with { type: "json" };
import { parseArguments } from "../src/cli/arguments.ts";
import { FLAGS } from "../src/cli/flags.ts";
import { parseConfig } from "../src/config/load.ts";

const ROOT = join(import.meta.dir, "..");
const pages = [
  ...readdirSync(ROOT).filter((name) => name.endsWith(".md")),
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
].map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));

function blocksOf(text: string): { language: string; text: string }[] {
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```/gm)].map(([, language, inner]) => ({
    language: language!,
    text: inner!,
  }));
}

/** As headings become anchors on the common forges. */
function anchorsOf(text: string): Set<string> {
  const plain = text.replace(/^```[\s\S]*?^```/gm, "");
  const slug = (heading: string) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(/\s/g, "-");
  return new Set([...plain.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => slug(heading!)));
}

describe("what the pages say holds", () => {
  test.each(pages.map(({ path, text }) => [path, text] as const))("%s: its links lead somewhere", (path, text) => {
    const links = [
      ...[...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, to]) => to!),
      ...[...text.matchAll(/(?:src|srcset|href)="([^"]+)"/g)].map(([, to]) => to!),
    ].filter((to) => !/^(https?:|mailto:|\{)/.test(to));
    for (const link of links) {
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? path : join(dirname(path), file);
      expect({ link, exists: existsSync(join(ROOT, target)) }).toEqual({ link, exists: true });
      if (anchor !== undefined) {
        expect([...anchorsOf(readFileSync(join(ROOT, target), "utf8"))]).toContain(anchor);
      }
    }
  });

  test("every block that is a configuration is one", () => {
    const configs = pages.flatMap(({ text }) => blocksOf(text).filter(({ language }) => /^ya?ml|json$/.test(language)));
    let checked = 0;
    for (const { text } of configs) {
      const value: unknown = parse(text);
      if (typeof value !== "object" || value === null || !("models" in value)) continue;
      parseConfig(text);
      checked++;
    }
    expect(checked).toBeGreaterThan(1);
  });

  test("every command is understood", () => {
    const lines = pages
      .flatMap(({ text }) => blocksOf(text).filter(({ language }) => language === "sh"))
      .flatMap(({ text }) => text.split("\n"));
    const own = lines.map((line) => /^(?:npx bun src\/cli\.ts|prefill-router) (.*?)\s*(?:#.*)?$/.exec(line)?.[1]);
    const starts = own.filter((rest) => rest !== undefined);
    expect(starts.length).toBeGreaterThan(4);
    for (const rest of starts) expect(() => parseArguments(rest.split(/\s+/))).not.toThrow();
    const scripts = pages.flatMap(({ text }) => [...text.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name!));
    for (const name of scripts) expect(Object.keys(manifest.scripts)).toContain(name);
  });

  test("migration notes: a flag that is said to be the same is one of ours", () => {
    const notes = pages.find(({ path }) => path === "docs/migrating.md")!.text;
    const same = notes.split("\n").filter((line) => /^\|.*\| the same/.test(line));
    const named = same.flatMap((line) => [...line.split("|")[1]!.matchAll(/--[a-z-]+/g)].map(([flag]) => flag));
    expect(named.length).toBeGreaterThan(10);
    const ours = FLAGS.flatMap(({ names }) => names);
    for (const flag of named) expect(ours).toContain(flag);
  });

  test("migration notes, tables and snippets name keys of the configuration that exist", () => {
    const schema = JSON.parse(readFileSync(join(ROOT, "docs/config.schema.json"), "utf8")) as {
      properties: Record<string, { properties?: Record<string, unknown> }>;
    };
    const known = /^(timeouts|limits|retries|breaker|health|disaggregation|auth|cors|log|telemetry)\.(\w+)$/;
    let checked = 0;
    for (const { text } of pages) {
      for (const [, written] of text.matchAll(/`(\w+\.\w+)(?:: [^`]+|\[\][^`]*)?`/g)) {
        const [, section, key] = known.exec(written!) ?? [];
        if (section === undefined) continue;
        expect({ written, keys: Object.keys(schema.properties[section]?.properties ?? {}) }).toEqual({
          written,
          keys: expect.arrayContaining([key]),
        });
        checked++;
      }
    }
    expect(checked).toBeGreaterThan(20);
  });

  test("every error code has its row, and there are no others", () => {
    const source = readFileSync(join(ROOT, "src/errors/failure.ts"), "utf8");
    const union = source.slice(source.indexOf("export type ErrorCode"), source.indexOf("FaultKind ="));
    const codes = [...union.slice(0, union.indexOf(";")).matchAll(/\| "(\w+)"/g)].map(([, code]) => code!);
    const page = pages.find(({ path }) => path === "docs/errors.md")!.text;
    const rows = [...page.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code!);
    expect(rows.sort()).toEqual(codes.sort());
  });
});
