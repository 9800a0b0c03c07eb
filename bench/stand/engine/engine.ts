import type { Dialect, EngineGroup, EngineStats, Journal, Role, Shape } from "../protocol.ts";
import { Connection } from "./connection.ts";
import { json, type Replies, repliesFor } from "./replies.ts";
import type { Wheel } from "./wheel.ts";

/** Engines of one role on several ports: they differ in nothing but the port. */
export class Engine {
  readonly name: string;
  readonly dialect: Dialect;
  readonly role: Role;
  readonly wheel: Wheel;
  readonly journal: Journal;
  readonly idle = new Set<Connection>();
  readonly stats: EngineStats = { requests: 0, rejected: 0, lastError: "", cancelled: 0, inFlight: 0, maxInFlight: 0 };
  readonly #port: number;
  replies: Replies;
  itlMs = 0;
  #soon: Connection[] = [];

  constructor(group: EngineGroup, shape: Shape, wheel: Wheel, journal: Journal) {
    this.name = group.name;
    this.dialect = group.dialect;
    this.role = group.role;
    this.wheel = wheel;
    this.journal = journal;
    this.#port = group.ports[0] ?? 0;
    this.replies = repliesFor(shape, this.dialect, this.role, this.#port);
    for (const port of group.ports) this.#listen(port);
  }

  setShape(shape: Shape): void {
    this.replies = repliesFor(shape, this.dialect, this.role, this.#port);
    this.itlMs = shape.itlMs;
    Object.assign(this.stats, { requests: 0, rejected: 0, lastError: "", cancelled: 0, maxInFlight: 0 });
  }

  refusal(why: string): Buffer {
    return json("400 Bad Request", { error: { message: why, type: "BadRequestError", code: 400 } });
  }

  pumpSoon(connection: Connection): void {
    if (this.#soon.push(connection) === 1) setImmediate(this.#pumpAll);
  }

  readonly #pumpAll = (): void => {
    const now = this.#soon;
    this.#soon = [];
    for (const connection of now) connection.pump();
  };

  #listen(port: number): void {
    Bun.listen<Connection>({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: (socket) => {
          socket.setNoDelay(true);
          socket.data = new Connection(this, socket);
        },
        data: (socket, bytes) => socket.data.data(bytes as Buffer),
        drain: (socket) => socket.data.drain(),
        close: (socket) => socket.data.closed(),
        error: () => {},
      },
    });
  }
}
