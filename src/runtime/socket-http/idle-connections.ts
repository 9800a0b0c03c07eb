import type { Connection } from "./connection.ts";

/** The kernel takes two minutes to give one up. */
const ABANDONED = 8;

/** Connections that wait for their next request, by host. */
export class IdleConnections {
  readonly #byHost = new Map<string, Connection[]>();
  #settling: Connection[] = [];
  readonly #abandoned = new Map<string, number>();

  /**
   * Takes a connection in when this turn of the event loop is over: an engine that closes with its answer, without having said so, has its end
   * told after the answer's own.
   */
  settle(connection: Connection): void {
    if (this.#settling.push(connection) === 1) setImmediate(() => this.#settle());
  }

  #settle(): void {
    const settled = this.#settling;
    this.#settling = [];
    for (const connection of settled) if (connection.open) this.#put(connection);
  }

  #put(connection: Connection): void {
    let idle = this.#byHost.get(connection.host);
    if (idle === undefined) {
      idle = [];
      this.#byHost.set(connection.host, idle);
    }
    connection.place = idle.length;
    idle.push(connection);
  }

  has(host: string): boolean {
    return (this.#byHost.get(host)?.length ?? 0) > 0;
  }

  /** The one that was used last: the others may end by themselves, and it is the least likely to be closed in this moment. */
  take(host: string): Connection | undefined {
    const connection = this.#byHost.get(host)?.pop();
    if (connection !== undefined) connection.place = -1;
    return connection;
  }

  /** Connects that nobody waits for any more have begun (1) or have come to their end (-1). */
  abandoned(host: string, change: 1 | -1): void {
    const count = (this.#abandoned.get(host) ?? 0) + change;
    if (count === 0) this.#abandoned.delete(host);
    else this.#abandoned.set(host, count);
  }

  /** So many connects are under way for nobody that there should not be more: the host is likely to be gone. */
  tooManyAbandoned(host: string): boolean {
    return (this.#abandoned.get(host) ?? 0) >= ABANDONED;
  }

  remove(connection: Connection): void {
    const idle = this.#byHost.get(connection.host)!;
    const last = idle.pop()!;
    if (last !== connection) {
      idle[connection.place] = last;
      last.place = connection.place;
    }
    connection.place = -1;
    if (idle.length === 0) this.#byHost.delete(connection.host);
  }
}
