import { connect, type Socket } from "node:net";
import type { Dialer, TcpPeer, TcpSocket } from "./socket-http/tcp.ts";

/** Node's sockets. They keep what they could not send yet, and where it is. */
export const nodeDialer: Dialer = {
  copies: false,
  dial(host, port, peer) {
    const socket = connect({ host, port, noDelay: true });
    const own = new NodeSocket(socket);
    tell(socket, "connect", peer, () => peer.opened(own));
    tell(socket, "data", peer, (bytes: Buffer) => peer.received(bytes));
    tell(socket, "end", peer, () => peer.finished());
    tell(socket, "timeout", peer, () => peer.idle());
    let error: unknown;
    socket.on("error", (reason) => {
      error = reason;
    });
    tell(socket, "close", peer, () => peer.gone(error));
    return () => socket.destroy();
  },
};

/** What is thrown in an event's listener would end the process. */
function tell<T extends unknown[]>(socket: Socket, event: string, peer: TcpPeer, listener: (...args: T) => void): void {
  socket.on(event, (...args: unknown[]) => {
    try {
      listener(...(args as T));
    } catch (error) {
      peer.threw(error);
    }
  });
}

class NodeSocket implements TcpSocket {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  write(bytes: string | Uint8Array): number {
    if (this.#socket.destroyed) return -1;
    this.#socket.write(bytes);
    return typeof bytes === "string" ? Buffer.byteLength(bytes) : bytes.length;
  }

  holding(): boolean {
    return this.#socket.writableLength > 0;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  ref(): void {
    this.#socket.ref();
  }

  unref(): void {
    this.#socket.unref();
  }

  timeout(seconds: number): void {
    this.#socket.setTimeout(seconds * 1_000);
  }

  setKeepAlive(enable: boolean, ms: number): void {
    this.#socket.setKeepAlive(enable, ms);
  }

  end(): void {
    // Not its `end`, which would wait for the other side's.
    this.#socket.destroy();
  }

  terminate(): void {
    this.#socket.destroy();
  }
}
