import { closeSync, openSync } from "node:fs";
import { isOutOfFiles, outOfFiles } from "./out-of-files.ts";
import type { Dialer, TcpPeer } from "./socket-http/tcp.ts";

/** One set for all connections. */
const handlers: Bun.SocketHandler<TcpPeer> = {
  binaryType: "uint8array",
  open: (socket) => socket.data.opened(socket),
  data: (socket, bytes) => socket.data.received(bytes),
  drain: (socket) => socket.data.writable(),
  end: (socket) => socket.data.finished(),
  close: (socket, error) => socket.data.gone(error),
  // What was thrown in one of these.
  error: (socket, error) => socket.data.threw(error),
  // May be called before `Bun.connect` has returned.
  connectError: (socket, error) => queueMicrotask(() => failed(socket.data, error)),
  timeout: (socket) => socket.data.idle(),
};

/** Bun's own sockets. A connect cannot be taken back: until the kernel gives up on it, it is a file more. */
export const bunDialer: Dialer = {
  copies: true,
  dial(hostname, port, peer) {
    // What it rejects with, `connectError` is told.
    Bun.connect({ hostname, port, data: peer, socket: handlers }).catch(ignore);
    return undefined;
  },
};

function failed(peer: TcpPeer, error: unknown): void {
  if (noneLeft()) peer.threw(outOfFiles(error));
  else peer.gone(error);
}

/** Bun says of a shortage of files that the engine has refused. */
function noneLeft(): boolean {
  try {
    closeSync(openSync("/dev/null", "r"));
    return false;
  } catch (error) {
    return isOutOfFiles(error);
  }
}

function ignore(): void {}
