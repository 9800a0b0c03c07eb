import { AsyncLocalStorage } from "node:async_hooks";
import type { Transport, TransportRequest } from "../../src/legs/transport.ts";
import type { PrefillRouter } from "../../src/runtime/workers.ts";
import { ManualClock } from "../manual-clock.ts";

/** Connections of one request that may wait for response headers at once. */
const MOST_WAITING = 6;
/** Work that outlives its response by more is killed. */
const AFTER_RESPONSE_MS = 30_000;

interface EdgeRequest {
  name: string;
  waiting: number;
  /** Tasks given to waitUntil that have not ended. */
  tasks: number;
  dead: boolean;
  aborts: Set<() => void>;
}

export type Engine = (url: string, request: TransportRequest) => Promise<Response>;

/**
 * The rules of an edge platform, enforced: each request may touch only its own connections and timers, has six of the former, and ends
 * 30 s after its response whatever still runs. Whoever breaks one stands in `violations`.
 */
export class EdgePlatform {
  readonly violations: string[] = [];
  mostWaiting = 0;
  readonly #current = new AsyncLocalStorage<EdgeRequest>();
  readonly #time = new ManualClock();
  readonly #engine: Engine;
  #count = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Timers belong to the request that set them and die with it. */
  readonly clock = {
    now: (): number => this.#time.now(),
    after: (ms: number, fn: () => void): (() => void) => {
      const owner = this.#owner("a timer");
      return this.#time.after(ms, () => {
        if (owner === undefined) fn();
        else if (!owner.dead) this.#current.run(owner, fn);
      });
    },
  };

  readonly transport: Transport = {
    fetch: async (url, request) => {
      const owner = this.#owner("a connection");
      if (owner === undefined || owner.dead) throw new Error("I/O outside a request");
      owner.waiting += 1;
      this.mostWaiting = Math.max(this.mostWaiting, owner.waiting);
      if (owner.waiting > MOST_WAITING)
        this.violations.push(`${owner.name}: ${owner.waiting} connections wait for headers`);
      try {
        const killed = new Promise<never>((_, reject) => {
          const abort = () => reject(new Error("Network connection lost."));
          owner.aborts.add(abort);
          request.signal.addEventListener("abort", abort);
        });
        killed.catch(nothing);
        const response = await Promise.race([this.#engine(url, request), killed]);
        return this.#owned(response, owner, killed);
      } finally {
        owner.waiting -= 1;
      }
    },
  };

  advance(ms: number): Promise<void> {
    return this.#time.advance(ms);
  }

  /** Serves one request to its end, or until its client `leavesAfter` so many blocks. */
  async serve(router: PrefillRouter, request: Request, leavesAfter = Number.POSITIVE_INFINITY): Promise<Served> {
    this.#count += 1;
    const owner: EdgeRequest = { name: `request ${this.#count}`, waiting: 0, tasks: 0, dead: false, aborts: new Set() };
    let tasksAtReturn = 0;
    const waitUntil = (task: Promise<unknown>): void => {
      if (owner.dead) this.violations.push(`${owner.name}: waitUntil after its end`);
      owner.tasks += 1;
      const over = () => {
        owner.tasks -= 1;
      };
      task.then(over, over);
    };
    return this.#current.run(owner, async () => {
      const response = await router.fetch(request, {}, { waitUntil });
      tasksAtReturn = owner.tasks;
      let text = "";
      const reader = response.body?.getReader();
      const decoder = new TextDecoder();
      for (let blocks = 0; reader !== undefined; blocks++) {
        if (blocks >= leavesAfter) {
          await reader.cancel();
          break;
        }
        const { done, value } = await reader.read();
        if (done) break;
        text += decoder.decode(value, { stream: true });
      }
      this.#time.after(AFTER_RESPONSE_MS, () => {
        if (owner.tasks > 0) this.violations.push(`${owner.name}: ${owner.tasks} tasks were killed`);
        owner.dead = true;
        for (const abort of owner.aborts) abort();
      });
      return { status: response.status, text, tasksAtReturn, tasks: () => owner.tasks };
    });
  }

  #owner(what: string): EdgeRequest | undefined {
    const owner = this.#current.getStore();
    if (owner === undefined) this.violations.push(`${what} outside a request`);
    return owner;
  }

  /** The same answer; whoever reads it in another request's name is caught. */
  #owned(response: Response, owner: EdgeRequest, killed: Promise<never>): Response {
    const check = () => {
      const reading = this.#current.getStore();
      if (reading !== owner) this.violations.push(`${reading?.name ?? "nobody"} reads an answer of ${owner.name}`);
    };
    const body = response.body;
    return {
      status: response.status,
      ok: response.ok,
      headers: response.headers,
      body: body && {
        getReader() {
          const reader = body.getReader();
          return {
            read() {
              check();
              return Promise.race([reader.read(), killed]);
            },
            cancel: () => reader.cancel(),
          };
        },
        cancel: () => body.cancel(),
      },
      text() {
        check();
        return Promise.race([response.text(), killed]);
      },
      arrayBuffer: () => response.arrayBuffer(),
      json: () => response.json(),
    } as unknown as Response;
  }
}

export interface Served {
  status: number;
  text: string;
  /** Tasks in waitUntil when the handler gave its response. */
  tasksAtReturn: number;
  tasks(): number;
}

function nothing(): void {}
