import { connect } from "node:net";

/**
 * One small POST over a bare socket, in the shape of `fetch`: what a decode simulator asks another process's side
 * channel. Not `fetch` itself, since Bun lets 256 of those run at once per process and drops them after five minutes of
 * silence, and hundreds of decodes waiting for minutes is exactly what a rendezvous is.
 */
export function dialOverTcp(url: string, init: RequestInit): Promise<Response> {
  const { hostname, port, pathname } = new URL(url);
  const body = Buffer.from(String(init.body ?? ""));
  const signal = init.signal ?? undefined;
  return new Promise<Response>(function ask(resolve, reject) {
    const chunks: Buffer[] = [];
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port), noDelay: true });
    function hangUp(): void {
      socket.destroy();
      reject(signal?.reason ?? new Error("The dialling side has left"));
    }
    if (signal?.aborted) return hangUp();
    signal?.addEventListener("abort", hangUp, { once: true });
    socket.on("connect", function send(): void {
      const head = `${init.method ?? "GET"} ${pathname} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nconnection: close\r\n`;
      socket.write(`${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`);
      socket.write(body);
    });
    socket.on("data", (bytes: Buffer) => chunks.push(bytes));
    socket.on("error", reject);
    socket.on("close", function finish(): void {
      signal?.removeEventListener("abort", hangUp);
      const answer = Buffer.concat(chunks).toString("utf8");
      const status = /^HTTP\/1\.1 (\d{3}) /.exec(answer);
      const headEnd = answer.indexOf("\r\n\r\n");
      if (status === null || headEnd < 0) reject(new Error("The connection was closed without an answer"));
      else resolve(new Response(answer.slice(headEnd + 4), { status: Number(status[1]) }));
    });
  });
}
