import { expect, test } from "bun:test";
import { buildAssets } from "../../scripts/dashboard-assets.ts";
import { assets } from "../../src/dashboard/assets.ts";
import { dashboardPage } from "../../src/dashboard/page.ts";

const text = (name: string): string => assets[name]!.text;

test("the committed files are what their sources say (bun scripts/dashboard.ts)", async () => {
  expect(await Bun.file(new URL("../../src/dashboard/assets.ts", import.meta.url)).text()).toBe(await buildAssets());
});

test("the page and all its files are small enough for any bundle: below 60 KB", () => {
  const all =
    dashboardPage +
    Object.values(assets)
      .map((asset) => asset.text)
      .join("");
  expect(new TextEncoder().encode(all).length).toBeLessThan(60_000);
});

test("the page asks for its own files only, and each of them is there", () => {
  const wanted = [...dashboardPage.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, to]) => to!);
  for (const to of wanted.filter((to) => to.startsWith("assets/"))) expect(assets).toHaveProperty([to.slice(7)]);
  expect(wanted.filter((to) => /^(https?:)?\/\//.test(to))).toEqual([]);
  for (const { text } of Object.values(assets)) expect(text).not.toMatch(/url\(|@import|https?:\/\//);
});

test("nothing in the page runs from its markup, and nothing is ever put into it as markup", () => {
  expect(dashboardPage).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=/);
  expect(text("dashboard.js")).not.toMatch(
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function/,
  );
});
