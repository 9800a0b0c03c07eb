import type { Connection } from "./connection.ts";

/** Connections that wait for their next request, by host. */
export class IdleConnections {
  readonly #byHost = new Map<string, Connection[]>();

  put(connection: Connection): void {
    let idle = this.#byHost.get(connection.host);
    if (idle === undefined) {
      idle = [];
      this.#byHost.set(connection.host, idle);
    }
    connection.place = idle.length;
    idle.push(connection);
  }

  /** The one that was used last: the others may end by themselves, and it is the least likely to be closed in this moment. */
  take(host: string): Connection | undefined {
    const connection = this.#byHost.get(host)?.pop();
    if (connection !== undefined) connection.place = -1;
    return connection;
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
