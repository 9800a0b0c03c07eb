import { describe, expect, test } from "bun:test";
import { Pieces } from "../../../src/json/pieces.ts";
import { HeadParser } from "../../../src/runtime/socket-http/head-parser.ts";
import { sendOver } from "../../../src/runtime/socket-http/send.ts";
import type { Dialer, TcpPeer, TcpSocket } from "../../../src/runtime/socket-http/tcp.ts";

class HandSocket implements TcpSocket {
  closed = false;
  write(bytes: string | Uint8Array): number {
    return bytes.length;
  }
  pause(): void {}
  resume(): void {}
  ref(): void {}
  unref(): void {}
  timeout(): void {}
  setKeepAlive(): void {}
  end(): void {
    this.closed = true;
  }
  terminate(): void {
    this.closed = true;
  }
}

/** A request that is on its way, and the engine's side of its connection. */
function underWay() {
  let peer: TcpPeer | undefined;
  const dialer: Dialer = {
    copies: true,
    dial(_host, _port, own) {
      peer = own;
      return undefined;
    },
  };
  const failed: unknown[] = [];
  const request = { headers: {}, body: new Pieces(["{}"]), fresh: false, connectMs: 0 };
  const listener = { head: () => {}, failed: (error: unknown) => failed.push(error) };
  const exchange = sendOver(dialer, () => undefined)("http://engine:1/v1", request, listener)!;
  const socket = new HandSocket();
  peer!.opened(socket);
  return { exchange, peer: peer!, socket, failed };
}

describe("the parser of a head that never comes whole is given back", () => {
  const half = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200";
  test.each([
    ["what comes is no HTTP", (way: ReturnType<typeof underWay>) => way.peer.received(Buffer.from("what?\r\n\r\n"))],
    [
      "the engine ends in its middle",
      (way: ReturnType<typeof underWay>) => {
        way.peer.received(Buffer.from(half));
        way.peer.finished();
      },
    ],
    [
      "the connection breaks",
      (way: ReturnType<typeof underWay>) => {
        way.peer.received(Buffer.from(half));
        way.peer.gone(new Error("reset"));
      },
    ],
    [
      "nobody wants the answer any more",
      (way: ReturnType<typeof underWay>) => {
        way.peer.received(Buffer.from(half));
        way.exchange.close();
      },
    ],
  ])("%s", async (_, end) => {
    const parser = HeadParser.take();
    parser.giveBack();
    const way = underWay();
    end(way);
    await Promise.resolve();
    expect(way.failed.length).toBe(1);
    expect(HeadParser.take()).toBe(parser);
    parser.giveBack();
  });
});
