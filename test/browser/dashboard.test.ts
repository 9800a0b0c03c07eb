import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { Viewer } from "./browser.ts";
import { ADMIN, Stage } from "./stage.ts";

const OUTPUT = fileURLToPath(new URL("../output/", import.meta.url));

let stage: Stage;
beforeAll(async () => {
  await mkdir(OUTPUT, { recursive: true });
  stage = await Stage.start();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** The row of a request, by how it is called for those who cannot see it. */
function rowOf(page: Page, id: string) {
  return page.getByRole("list", { name: /request/ }).getByRole("button", { name: new RegExp(`^${id},`) });
}

function save(page: Page, name: string, fullPage = false): Promise<unknown> {
  return page.screenshot({ path: `${OUTPUT}${name}.png`, fullPage });
}

/** "240 ms" or "1.24 s" in milliseconds. */
function milliseconds(text: string | null): number {
  const [value, unit] = text!.split(" ");
  return Number(value) * (unit === "s" ? 1_000 : 1);
}

/** Nothing on the console, nobody else asked. */
function expectClean(viewer: Viewer): void {
  expect(viewer.errors).toEqual([]);
  expect(viewer.outside(stage.url)).toEqual([]);
}

test("it opens, and says at a glance that it serves", async () => {
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(stage.url);
  await page.getByRole("status").getByRole("heading", { name: "Serving", exact: true }).waitFor();
  expect(await page.title()).toBe("Serving – prefill-router");
  await page.getByText("4 of 4 workers usable").waitFor();
  for (const name of ["prefill-1", "prefill-2", "decode-1", "decode-2"]) {
    await page.getByRole("listitem").filter({ hasText: name }).getByText("usable").waitFor();
  }
  expectClean(viewer);
});

test("a running request is seen while it runs, and its end when it is over", async () => {
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(stage.url);
  const asked = stage.ask("long-one", 120);
  const row = rowOf(page, "long-one");
  await row.getByText("streaming").waitFor();
  expect(await row.getAttribute("aria-label")).toMatch(/^long-one, .*prefill-\d → decode-\d, running for /);
  // The scale grows with it, so it is the time that tells, not the width.
  const before = milliseconds(await row.locator(".took").textContent());
  await page.waitForTimeout(600);
  expect(milliseconds(await row.locator(".took").textContent())).toBeGreaterThan(before + 300);
  expect(await row.locator('.piece.work[data-lane="decode"][data-live]').count()).toBe(1);
  await asked;
  await row.getByText("200").waitFor();
  expect(await row.locator("[data-live]").count()).toBe(0);
  expect(await row.getAttribute("aria-label")).toContain("took");
  expectClean(viewer);
});

test("a late failure is red, on the prefill lane, with the worker that failed, at the top of the page and among the failures", async () => {
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(stage.url);
  const text = await stage.ask("late-one", 300, { prefill: "reset@400ms" });
  expect(text).toContain('"code":"prefill_unreachable"');
  const row = rowOf(page, "late-one");
  await row.getByText(/^late reset, prefill-\d$/).waitFor();
  const mark = row.locator(".lane").first().locator(".broken.late");
  expect(await mark.count()).toBe(1);
  const red = await mark.evaluate((element) => getComputedStyle(element).color);
  expect(red).toBe("rgb(255, 107, 107)");
  await page.getByRole("heading", { name: /^Serving, / }).waitFor();
  await page.getByText(/1 of \d+ requests? failed in 5 min \([\d.]+ %\): in late prefill, all on prefill-\d/).waitFor();
  const line = page.getByRole("region", { name: "Last failures" }).getByRole("row", { name: /late-one/ });
  expect(await line.textContent()).toMatch(/prefill_unreachableprefill, lateprefill-\derror framelate-one$/);
  expectClean(viewer);
});

test("one request in detail, by click, by id in the search, and by address", async () => {
  await stage.ask("look-closer", 5, { decode: "status:500" });
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(stage.url);
  await page.getByRole("searchbox", { name: /Search/ }).fill("look-clo");
  await rowOf(page, "look-closer").click();
  expect(await page.locator("#rows .row").count()).toBe(1);
  const dialog = page.getByRole("dialog", { name: "look-closer" });
  await dialog.getByText("decode leg sent").waitFor();
  const facts = await dialog.locator("dl").textContent();
  expect(facts).toContain("Codedecode_failed");
  expect(facts).toContain("Stagedecode");
  expect(facts).toMatch(/Decodedecode-\d/);
  expect(new URL(page.url()).hash).toBe("#look-closer");
  await save(page, "detail");
  await page.reload();
  await dialog.getByText("decode leg sent").waitFor();
  await page.goto(`${stage.url}#never-heard-of`);
  await page.getByText("The router does not remember this request").waitFor();
  expectClean(viewer);
});

test("everything works with the keyboard alone", async () => {
  await Promise.all(["key-1", "key-2", "key-3"].map((id) => stage.ask(id, 3)));
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(stage.url);
  await rowOf(page, "key-1").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("key-");
  await page.keyboard.press("Tab");
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label")?.split(",")[0]);
  const first = await focused();
  expect(first).toStartWith("key-");
  await page.keyboard.press("End");
  const last = await focused();
  expect(last).not.toBe(first);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  expect(await focused()).toBe(first);
  await page.waitForTimeout(700);
  expect(await focused()).toBe(first);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: first! }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  expect(await focused()).toBe(first);
  await page.keyboard.press("p");
  expect(await page.getByRole("button", { name: "Pause" }).getAttribute("aria-pressed")).toBe("true");
  await stage.ask("key-while-paused", 3);
  await page.waitForTimeout(1_200);
  expect(await rowOf(page, "key-while-paused").count()).toBe(0);
  await page.keyboard.press("p");
  await rowOf(page, "key-while-paused").waitFor();
  expectClean(viewer);
});

test("everything that can be used has a name, and text can be read on its background", async () => {
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(stage.url);
  await page.getByRole("status").getByRole("heading").waitFor();
  for (const scheme of ["dark", "light"] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    const tree = await page.locator("body").ariaSnapshot();
    expect(tree.match(/^\s*- (button|link|searchbox|textbox)(:| \[|$)/gm)).toBeNull();
    const faint = await page.evaluate(textBelowContrast, 4.5);
    expect({ scheme, faint }).toEqual({ scheme, faint: [] });
  }
  expect(await page.locator("h1").count()).toBe(1);
});

test("what a client puts into its request is text on the page", async () => {
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(stage.url);
  // Ids are plain tokens by the router's rule; model names are looked up. What is left is shown as it is.
  await stage.ask("a:b@c+d", 3);
  await rowOf(page, "a:b@c\\+d").click();
  await page.getByRole("dialog", { name: "a:b@c+d" }).waitFor();
  await page.goto(`${stage.url}#<img src=x onerror=alert(1)>`);
  await page.getByRole("heading", { name: "<img src=x onerror=alert(1)>" }).waitFor();
  expect(await page.locator("img").count()).toBe(0);
  expectClean(viewer);
});

test("phone width needs no scrolling sideways, and shows the same", async () => {
  await using viewer = await Viewer.open({ width: 390, height: 844 });
  const { page } = viewer;
  await page.goto(stage.url);
  await rowOf(page, "late-one").waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  await save(page, "phone", true);
  await rowOf(page, "late-one").click();
  const box = await page.getByRole("dialog", { name: "late-one" }).boundingBox();
  expect(box!.width).toBeLessThanOrEqual(390);
  await save(page, "phone-detail");
  expectClean(viewer);
});

/** A few of what a night has; by number of the request. */
const FAULTS: Readonly<Record<number, { prefill?: string; decode?: string }>> = {
  26: { prefill: "reset@380ms" },
  28: { decode: "cut@6" },
  33: { prefill: "status:500@260ms" },
  31: { decode: "status:500" },
};

test("a sick worker is named, with since when, and the page stays with the router while it is told", async () => {
  await using viewer = await Viewer.open({ height: 1180 });
  const { page } = viewer;
  await page.goto(stage.url);
  await stage.engines.get("decode-2")!.close();
  await page.getByText("decode-2 fails its health checks").waitFor();
  const card = page
    .getByRole("region", { name: "Fleet" })
    .getByRole("listitem")
    .filter({ hasText: "decode-2" })
    .first();
  await card.getByText("unhealthy").waitFor();
  await card.getByText(/since \d\d:\d\d:\d\d/).waitFor();
  const running: Promise<string>[] = [];
  for (let i = 0; i < 36; i++) {
    running.push(stage.ask(`chat-${101 + i}`, 8 + ((i * 11) % 37), FAULTS[i]));
    await page.waitForTimeout(40);
  }
  await Promise.all(running);
  running.push(...[0, 1, 2].map((i) => stage.ask(`chat-${201 + i}`, 80 + 20 * i)));
  await rowOf(page, "chat-203").getByText("streaming").waitFor();
  await page.waitForTimeout(400);
  await save(page, "dashboard-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.waitForTimeout(100);
  await save(page, "dashboard-light");
  await Promise.all(running);
  expectClean(viewer);
});

test("the documentation opens, without a script and without anybody else", async () => {
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(`${stage.url}docs`);
  await page.getByRole("link", { name: "/v1/chat/completions" }).click();
  await page.getByRole("heading", { name: "POST /v1/chat/completions" }).waitFor();
  const faint = await page.evaluate(textBelowContrast, 4.5);
  expect(faint).toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  expectClean(viewer);
});

test("where a key is set it is asked for once, kept for the tab alone, and never put into an address", async () => {
  await using guarded = await Stage.start({ auth: { adminKeyEnv: "ADMIN" } }, 9_100);
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(guarded.url);
  const key = page.getByLabel("Key", { exact: true });
  await key.fill("not-the-key");
  await key.press("Enter");
  await page.getByRole("alert").getByText("The router does not take this key.").waitFor();
  expect(await page.locator("main").textContent()).not.toContain("prefill-1");
  await save(page, "key");
  await key.fill(ADMIN);
  await key.press("Enter");
  await page.getByRole("heading", { name: "Serving", exact: true }).waitFor();
  await page.getByText(guarded.engines.get("prefill-1")!.url).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Serving", exact: true }).waitFor();
  expect(viewer.requests.filter((url) => url.includes(ADMIN))).toEqual([]);
  expect(await page.evaluate(() => JSON.stringify({ ...localStorage }))).not.toContain(ADMIN);
  await page.getByRole("button", { name: "Forget key" }).click();
  await key.waitFor();
  // The browser itself writes a line for each 401 and 403.
  expect(viewer.errors.filter((error) => !/status of 40[13]/.test(error))).toEqual([]);
  expect(viewer.outside(guarded.url)).toEqual([]);
});

test("when the router goes the page says so, and comes back by itself with another one", async () => {
  const first = await Stage.start({}, 9_200);
  const port = Number(new URL(first.url).port);
  await using viewer = await Viewer.open();
  const { page } = viewer;
  await page.goto(first.url);
  await page.getByRole("heading", { name: "Serving", exact: true }).waitFor();
  await first[Symbol.asyncDispose]();
  await page.getByRole("heading", { name: "Connection lost" }).waitFor();
  await page.getByText(/No word from the router for \d+ s/).waitFor();
  await using _second = await Stage.start({ listen: { host: "127.0.0.1", port } }, 9_200);
  await page.getByRole("heading", { name: "Serving", exact: true }).waitFor();
});

/** Texts whose contrast with what is behind them is below `least` (WCAG 2.2, 1.4.3). Runs in the page. */
function textBelowContrast(least: number): string[] {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true })!;
  // Whatever way a color is written in, the canvas knows it.
  const paint = (...colors: string[]): number[] => {
    canvas.clearRect(0, 0, 1, 1);
    for (const color of colors) {
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]: number[]): number => {
    const part = (value: number): number => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(r!) + 0.7152 * part(g!) + 0.0722 * part(b!);
  };
  const out: string[] = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement!;
    const text = node.textContent!.trim();
    if (text === "" || !element.checkVisibility() || element.closest("[aria-hidden=true]") !== null) continue;
    const behind: string[] = [];
    for (let at: Element | null = element; at !== null; at = at.parentElement) {
      behind.unshift(getComputedStyle(at).backgroundColor);
    }
    const back = light(paint(...behind));
    const front = light(paint(...behind, getComputedStyle(element).color));
    const contrast = (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
    if (contrast < least) out.push(`${text}: ${contrast.toFixed(2)}`);
  }
  return out;
}
