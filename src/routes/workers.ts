import type { Context } from "hono";
import { asFailure, type ErrorCode, Failure } from "../errors/failure.ts";
import type { FleetControl } from "../fleet/control.ts";
import type { KeyRing } from "../middleware/key-ring.ts";
import type { Clock } from "../runtime/clock.ts";
import { errorResponse } from "./error-response.ts";
import { json } from "./json-response.ts";
import { readJsonBody } from "./read-body.ts";
import { requestId } from "./request-id.ts";

/** A worker's description is a few hundred bytes. */
const BODY_BYTES = 65_536;
const BODY_MS = 10_000;

export interface WorkerRouteDeps {
  control: FleetControl;
  keys: KeyRing;
  clock: Clock;
  /** Counts a refusal. */
  rejected(code: ErrorCode): void;
  mask(text: string): string;
}

/**
 * The admin routes (contract section 3): GET and POST /workers, GET and DELETE /workers/{name}, POST /workers/{name}/drain. The key is
 * looked at before anything else, so that without one not even the method or a worker's name can be found out.
 */
export class WorkerRoutes {
  readonly #deps: WorkerRouteDeps;

  constructor(deps: WorkerRouteDeps) {
    this.#deps = deps;
  }

  readonly all = (c: Context): Promise<Response> =>
    this.#admin(c, async () => {
      const { control } = this.#deps;
      if (c.req.method === "GET") return json(c, 200, control.list());
      if (c.req.method !== "POST") return this.#wrongMethod(c, "GET, POST");
      const { text } = await readJsonBody(c.req.raw, BODY_BYTES, this.#deps.clock, BODY_MS);
      const { worker, ignored } = await control.add(text);
      const response = json(c, 201, { success: true, message: `Worker "${worker.name}" joined`, worker, ignored });
      response.headers.set("location", `/workers/${encodeURIComponent(worker.name)}`);
      return response;
    });

  readonly one = (c: Context): Promise<Response> =>
    this.#admin(c, async () => {
      const { control } = this.#deps;
      const name = c.req.param("name") ?? "";
      if (c.req.method === "GET") return json(c, 200, control.one(name));
      if (c.req.method !== "DELETE") return this.#wrongMethod(c, "GET, DELETE");
      const worker = control.remove(name);
      const message = `Worker "${name}" left${worker.load > 0 ? `; in hand and running on: ${worker.load}` : ""}`;
      return json(c, 200, { success: true, message, worker });
    });

  readonly drain = (c: Context): Promise<Response> =>
    this.#admin(c, async () => {
      if (c.req.method !== "POST") return this.#wrongMethod(c, "POST");
      const { worker, drained, inFlight } = this.#deps.control.drain(c.req.param("name") ?? "");
      return json(c, 200, { draining: true, drained, in_flight: inFlight, worker });
    });

  async #admin(c: Context, act: () => Promise<Response>): Promise<Response> {
    try {
      await this.#deps.keys.admin(c.req.raw.headers);
      return await act();
    } catch (error) {
      return this.#error(c, asFailure(error));
    }
  }

  #wrongMethod(c: Context, allow: string): Response {
    const message = `${c.req.path.slice(0, 200)} takes ${allow} only`;
    return this.#error(c, new Failure("method_not_allowed", { status: 405, stage: "router", message }), { allow });
  }

  #error(c: Context, failure: Failure, headers: Record<string, string> = {}): Response {
    this.#deps.rejected(failure.code);
    return errorResponse(failure, { requestId: requestId(c.req.raw.headers), headers, mask: this.#deps.mask });
  }
}
