import { connect } from "node:net";

/** What came back on the wire for bytes that no HTTP client would send. */
export interface RawReply {
  status: number;
  text: string;
  /** The router closed the connection. */
  closed: boolean;
}

/** Writes bytes as they are and reads for the answer: until its body is there, the connection closes, or `ms` have passed. */
export function rawRequest(port: number, bytes: string, ms = 2_000): Promise<RawReply> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    const timer = setTimeout(end, ms, false);
    function end(closed: boolean): void {
      clearTimeout(timer);
      socket.destroy();
      resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0), text, closed });
    }
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (isWhole(text)) end(false);
    });
    socket.on("close", () => end(true));
    socket.on("error", () => end(true));
    socket.write(bytes);
  });
}

function isWhole(text: string): boolean {
  const head = text.indexOf("\r\n\r\n");
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text.slice(0, head + 2))?.[1];
  return head > 0 && length !== undefined && text.length >= head + 4 + Number(length);
}

export function postLine(path: string, body: string, headers: Record<string, string> = {}): string {
  const lines = Object.entries({
    host: "router",
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}
