import { connect, type Socket } from "node:net";
import { isOutOfFiles, outOfFiles } from "./out-of-files.ts";
import type { Dialer, TcpPeer, TcpSocket } from "./socket-http/tcp.ts";

/** Node's sockets. They keep what they could not send yet, and where it is. */
export const nodeDialer: Dialer = {
  copies: false,
  dial(host, port, peer) {
    // Half open: a reset, too, may be told as an end, and writing is what tells them apart.
    const socket = connect({ host, port, noDelay: true, allowHalfOpen: true });
    const own = new NodeSocket(socket);
    tell(socket, "connect", peer, () => peer.opened(own));
    tell(socket, "data", peer, (bytes: Buffer) => peer.received(bytes));
    tell(socket, "end", peer, () => finish(socket, peer));
    tell(socket, "timeout", peer, () => peer.idle());
    let error: unknown;
    socket.on("error", (reason) => {
      error = reason;
    });
    tell(socket, "close", peer, () => {
      if (isOutOfFiles(error)) peer.threw(outOfFiles(error));
      else peer.gone(error);
    });
    return () => socket.destroy();
  },
};

/**
 * Where bytes and a reset come together, or a reset meets a socket that was paused, libuv gives what it has read and then an end, which is how
 * an answer without a length ends well. After a reset nothing can be written any more, not even nothing. (What still waits to be written
 * would keep that from being told; to the connection such an end is no good one anyway.)
 */
function finish(socket: Socket, peer: TcpPeer): void {
  if (socket.writableLength > 0) {
    peer.finished();
    return;
  }
  socket.write(NOTHING, (error) => {
    // Else `close` tells.
    if (error == null && !socket.destroyed) guard(peer, () => peer.finished());
  });
}

const NOTHING = new Uint8Array(0);

/** What is thrown in an event's listener would end the process. */
function tell<T extends unknown[]>(socket: Socket, event: string, peer: TcpPeer, listener: (...args: T) => void): void {
  socket.on(event, (...args: unknown[]) => guard(peer, () => listener(...(args as T))));
}

function guard(peer: TcpPeer, fn: () => void): void {
  try {
    fn();
  } catch (error) {
    peer.threw(error);
  }
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
