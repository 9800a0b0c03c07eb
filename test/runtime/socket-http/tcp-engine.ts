import { createServer, type Server, type Socket } from "node:net";

/** What came on one connection, and the means to answer, byte by byte. */
export interface EngineSide {
  socket: Socket;
  /** Requests so far, each as text. */
  requests: string[];
  /** Bytes of bodies so far. */
  bytes: number;
  closed: boolean;
}

/** An engine of bare TCP: `answer` is called with each whole request. */
export class TcpEngine {
  readonly connections: EngineSide[] = [];
  readonly #server: Server;
  readonly #answer: (side: EngineSide, request: string) => void;

  /** @param greet is called with each connection before anything has come on it */
  constructor(answer: (side: EngineSide, request: string) => void, greet: (side: EngineSide) => void = () => {}) {
    this.#answer = answer;
    this.#server = createServer((socket) => greet(this.#serve(socket)));
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}/v1/x`;
  }

  #serve(socket: Socket): EngineSide {
    const side: EngineSide = { socket, requests: [], bytes: 0, closed: false };
    this.connections.push(side);
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      for (;;) {
        const at = text.indexOf("\r\n\r\n");
        const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
        side.bytes = Math.max(side.bytes, text.length - at - 4);
        if (at < 0 || text.length < at + 4 + length) return;
        const request = text.slice(0, at + 4 + length);
        text = text.slice(request.length);
        side.requests.push(request);
        this.#answer(side, request);
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      side.closed = true;
    });
    return side;
  }

  [Symbol.dispose](): void {
    for (const { socket } of this.connections) socket.destroy();
    this.#server.close();
  }
}
