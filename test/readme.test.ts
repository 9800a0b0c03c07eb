import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import manifest from "../package.json" with { type: "json" };
import { parseArguments } from "../src/cli/arguments.ts";
import { parseConfig } from "../src/config/load.ts";
import openapi from "../src/openapi/openapi.json" with { type: "json" };

const ROOT = join(import.meta.dir, "..");
const readme = readFileSync(join(ROOT, "README.md"), "utf8");
const blocks = [...readme.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, language, text]) => ({
  language,
  text: text!,
}));
const commands = blocks.filter(({ language }) => language === "sh").flatMap(({ text }) => text.split("\n"));

describe("what the README says holds", () => {
  test("its configuration is accepted as it stands", () => {
    const configs = blocks.filter(({ language }) => language === "yaml");
    expect(configs).toHaveLength(2);
    for (const { text } of configs) expect(Object.keys(parse(text))).toContain("models");
    const [one, regions] = configs.map(({ text }) => parseConfig(text));
    expect(one!.models[0]!.pools[0]!.prefill).toHaveLength(2);
    expect(regions!.models[0]!.pools.map(({ region }) => region)).toEqual(["eu-west", "us-east"]);
  });

  test("its start commands are understood", () => {
    const starts = commands.filter((line) => line.startsWith("prefill-router "));
    expect(starts.length).toBeGreaterThan(1);
    for (const line of starts) expect(["serve", "check"]).toContain(parseArguments(line.split(" ").slice(1)).command);
  });

  test("its npm scripts and files exist", () => {
    const scripts = [...readme.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name!);
    for (const name of scripts) expect(Object.keys(manifest.scripts)).toContain(name);
    const links = [...readme.matchAll(/\]\(((?!https?:)[^)]+)\)/g)].map(([, path]) => path!);
    expect(links.length).toBeGreaterThan(3);
    for (const path of [...links, ".ci/run"])
      expect({ path, exists: existsSync(join(ROOT, path)) }).toEqual({ path, exists: true });
  });

  test("its routes are the router's, all of them", () => {
    const table = readme.slice(
      readme.indexOf("| route | for | key, once set |"),
      readme.indexOf("Which APIs can be split"),
    );
    const said = [...table.matchAll(/`([A-Z]+ \/[^`]*)`/g)].map(([, route]) => route!);
    const known = Object.entries(openapi.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(said.sort()).toEqual(known.sort());
  });

  test("the error codes of the table of failures are the router's", () => {
    const failures = readFileSync(join(ROOT, "docs/failures.md"), "utf8");
    const source = readFileSync(join(ROOT, "src/errors/failure.ts"), "utf8");
    const known = new Set([...source.matchAll(/\| "(\w+)"/g)].map(([, code]) => code!));
    const table = failures.slice(failures.indexOf("| what happens |"), failures.indexOf("*An answer has begun*"));
    const said = [...table.matchAll(/`([a-z]+_[a-z_]+)`/g)].map(([, code]) => code!);
    expect(said.length).toBeGreaterThan(10);
    for (const code of said) expect([...known]).toContain(code);
  });
});
