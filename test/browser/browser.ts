import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A page of a real Chromium that has just been installed, and all that it should not do: errors, and requests to anybody else. */
export class Viewer {
  readonly page: Page;
  readonly #context: BrowserContext;
  readonly #profile: string;
  readonly errors: string[] = [];
  readonly requests: string[] = [];

  private constructor(context: BrowserContext, page: Page, profile: string) {
    this.#context = context;
    this.#profile = profile;
    this.page = page;
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") this.errors.push(message.text());
    });
    page.on("pageerror", (error) => this.errors.push(String(error)));
    page.on("request", (request) => this.requests.push(request.url()));
  }

  static async open(
    options: { width?: number; height?: number; colorScheme?: "dark" | "light" } = {},
  ): Promise<Viewer> {
    const { width = 1360, height = 900, colorScheme = "dark" } = options;
    const profile = await mkdtemp(join(tmpdir(), "prefill-router-browser-"));
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      headless: true,
      args: FLAGS,
      viewport: { width, height },
      colorScheme,
    });
    return new Viewer(context, context.pages()[0] ?? (await context.newPage()), profile);
  }

  /** Addresses of other hosts that were asked for. */
  outside(own: string): string[] {
    const { host } = new URL(own);
    return this.requests.filter((url) => !url.startsWith("data:") && new URL(url).host !== host);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close();
    await rm(this.#profile, { recursive: true, force: true });
  }
}
