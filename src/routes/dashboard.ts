import type { Context } from "hono";
import { assets } from "../dashboard/assets.ts";
import { DashboardFeed, RowKeys } from "../dashboard/feed.ts";
import { dashboardPage } from "../dashboard/page.ts";
import type { RouterFacts } from "../dashboard/update.ts";
import { asFailure, Failure } from "../errors/failure.ts";
import { version } from "../version.ts";
import type { RouteDeps } from "./deps.ts";
import { errorResponse } from "./error-response.ts";
import { html, ownFile } from "./html-response.ts";
import { requestId } from "./request-id.ts";

/** A viewer is a person; more than these are a mistake, and each costs a little. */
const MOST_VIEWERS = 32;

/** GET /, /assets/{file} and /dashboard/events: a public shell, and its data, which needs the admin key once one is set. */
export class DashboardRoutes {
  readonly #deps: RouteDeps;
  readonly #rowKeys = new RowKeys();
  /** Workers have no time of day while a module is loaded: 0 there. */
  readonly #startedAt = Date.now();
  #viewers = 0;

  constructor(deps: RouteDeps) {
    this.#deps = deps;
  }

  readonly page = (c: Context): Response => html(c, dashboardPage);

  readonly asset = (c: Context): Response => {
    const name = c.req.param("file") ?? "";
    const asset = Object.hasOwn(assets, name) ? assets[name] : undefined;
    return asset === undefined
      ? this.#error(c, new Failure("not_found", { status: 404, stage: "router", message: "No such route" }))
      : ownFile(c, asset.type, asset.text);
  };

  readonly events = async (c: Context): Promise<Response> => {
    const { keys, services, admission, calls, shuttingDown, clientStream } = this.#deps;
    const { signal, headers } = c.req.raw;
    try {
      const trusted = keys.hasAdmin;
      if (trusted) await keys.admin(headers);
      if (this.#viewers >= MOST_VIEWERS) {
        throw new Failure("router_overloaded", {
          status: 503,
          stage: "router",
          message: `The dashboard has ${MOST_VIEWERS} viewers already`,
          retryAfterSeconds: 5,
        });
      }
      const facts: RouterFacts = { version, startedAt: this.#startedAt, keyed: trusted };
      const { telemetry, fleet, clock } = services;
      const feed = new DashboardFeed({
        telemetry,
        fleet,
        control: this.#deps.control,
        clock,
        wallNow: Date.now,
        queued: () => admission.queued,
        phase: () => (!shuttingDown() ? "up" : calls.size > 0 ? "shutting down" : "idle"),
        trusted,
        facts,
        keys: this.#rowKeys,
        allowed: () => this.#stillAllowed(headers, trusted),
      });
      this.#viewers += 1;
      let here = true;
      const left = () => {
        if (here) this.#viewers -= 1;
        here = false;
        signal.removeEventListener("abort", left);
        feed.leave();
      };
      signal.addEventListener("abort", left);
      const source = {
        async next() {
          const bytes = await feed.next();
          if (bytes === undefined) left();
          return bytes;
        },
      };
      return new Response(clientStream(source, left), {
        headers: {
          "content-type": "text/event-stream; charset=utf-8",
          "cache-control": "no-cache, no-transform",
          "x-accel-buffering": "no",
          "x-request-id": requestId(headers),
        },
      });
    } catch (error) {
      return this.#error(c, asFailure(error));
    }
  };

  /** Keys may change with a reload, and a stream that was open may need one now. */
  async #stillAllowed(headers: Headers, trusted: boolean): Promise<boolean> {
    const { keys } = this.#deps;
    if (keys.hasAdmin !== trusted) return false;
    if (!trusted) return true;
    return keys.admin(headers).then(
      () => true,
      () => false,
    );
  }

  #error(c: Context, failure: Failure): Response {
    const { telemetry } = this.#deps.services;
    telemetry.metrics.rejected(failure.code);
    return errorResponse(failure, { requestId: requestId(c.req.raw.headers), mask: telemetry.mask });
  }
}
