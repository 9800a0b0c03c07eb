/**
 * The least that the router's own means can cost: Bun's server, two legs over Bun's sockets, the body handed on with the rendezvous put into
 * its text, decode's answer written as it comes. Nothing is read, checked, chosen, timed or counted, and no failure is told; a yardstick
 * for what everything else costs. Environment: PREFILL, DECODE (comma-separated urls), PORT.
 */
import type { ClientSource } from "../../src/attempt/answer.ts";
import { Pieces } from "../../src/json/pieces.ts";
import type { AnswerHead } from "../../src/legs/exchange.ts";
import { bunTransport } from "../../src/runtime/bun.ts";
import { bunStream } from "../../src/runtime/bun-stream.ts";

const { PREFILL = "", DECODE = "", PORT = "0" } = process.env;
const prefill = PREFILL.split(",");
const decode = DECODE.split(",");
const headers = { "content-type": "application/json" };
let turn = 0;

function ignore(): void {}

function send(url: string, body: string) {
  const { promise, resolve, reject } = Promise.withResolvers<AnswerHead>();
  const request = { headers, body: new Pieces([body]), fresh: false, connectMs: 0 };
  return { head: promise, exchange: bunTransport.send!(url, request, { head: resolve, failed: reject })! };
}

async function readAway(url: string, body: string): Promise<void> {
  const { head, exchange } = send(url, body);
  await head;
  await exchange.text();
}

async function splitBarely(request: Request): Promise<Response> {
  if (request.method !== "POST") return new Response("ok");
  const path = request.url.slice(request.url.indexOf("/", 8));
  const asked = await request.text();
  const room = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
  const end = asked.lastIndexOf("}");
  const body = `${asked.slice(0, end)},"bootstrap_host":"127.0.0.1","bootstrap_port":8998,"bootstrap_room":${room}}`;
  turn++;
  readAway(prefill[turn % prefill.length] + path, body).catch(ignore);
  const { head, exchange } = send(decode[turn % decode.length] + path, body);
  const type = (await head).headers.get("content-type") ?? "";
  if (!type.includes("event-stream")) return new Response(await exchange.text(), { headers: { "content-type": type } });
  const source: ClientSource = {
    next: () => Promise.resolve(undefined),
    pull: (taker) => exchange.read({ chunk: (bytes) => taker.take(bytes), cut: ignore }),
  };
  return new Response(
    bunStream(source, () => exchange.close()),
    { headers: { "content-type": type } },
  );
}

Bun.serve({ hostname: "127.0.0.1", port: Number(PORT), idleTimeout: 0, fetch: splitBarely });
