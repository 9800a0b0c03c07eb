/**
 * The least that a split can cost in TypeScript: parse, add the rendezvous, print, send to both, hand decode's body on.
 * No protection of any kind; a yardstick, not a router. Environment: PREFILL, DECODE (comma-separated urls), PORT.
 */
const { PREFILL = "", DECODE = "", PORT = "0" } = process.env;
const prefill = PREFILL.split(",");
const decode = DECODE.split(",");
let turn = 0;

function send(url: string, body: string): Promise<Response> {
  return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
}

async function readAway(answer: Promise<Response>): Promise<void> {
  await (await answer).arrayBuffer();
}

async function splitNaively(request: Request): Promise<Response> {
  if (request.method !== "POST") return new Response("ok");
  const { pathname } = new URL(request.url);
  const asked = (await request.json()) as Record<string, unknown>;
  const room = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
  const body = JSON.stringify({ ...asked, bootstrap_host: "127.0.0.1", bootstrap_port: 8998, bootstrap_room: room });
  turn++;
  readAway(send(prefill[turn % prefill.length] + pathname, body)).catch(() => {});
  return send(decode[turn % decode.length] + pathname, body);
}

Bun.serve({ hostname: "127.0.0.1", port: Number(PORT), idleTimeout: 0, fetch: splitNaively });
