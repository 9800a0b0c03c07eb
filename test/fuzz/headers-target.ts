import { outgoingHeaders } from "../../src/legs/outgoing-headers.ts";
import { passedHeaders } from "../../src/legs/passed-headers.ts";
import { requestId } from "../../src/routes/request-id.ts";
import { createRecord } from "../../src/telemetry/record.ts";
import { beginTrace } from "../../src/telemetry/trace-context.ts";
import { texts } from "./mutate.ts";
import { check, type Target } from "./target.ts";

const latin1 = new TextDecoder("latin1");
const KEY = "Bearer the-clients-key";

/** Written out here once more: the oracle takes nothing from the rules it judges (contract section 7). */
const NEVER =
  /^(connection|keep-alive|proxy-(authenticate|authorization|connection)|te|trailer|transfer-encoding|upgrade|host|content-length|content-encoding|cookie|expect|content-md5|digest|x-forwarded-.*|x-override-.*|x-data-parallel-rank|x-prefiller-.*|x-dynamo-.*|x-smg-.*|x-router-.*|x-request-id)$/;

/** Whatever headers a client sends: those that must not reach an engine do not, all others arrive as they came, and ids stay ids. */
export const headersTarget: Target = {
  name: "headers",
  seeds: texts(
    `authorization: ${KEY}\nx-api-key: ${KEY}\napi-key: ${KEY}\nconnection: keep-alive, x-mine\nx-mine: 1\nx-tenant: t\ncontent-type: text/plain\n`,
    "x-forwarded-for: 1.2.3.4\nx-prefiller-url: http://h\ntransfer-encoding: chunked\nx-request-id: abc\nx-ratelimit-a: 1\nretry-after: 1\n",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\ntracestate: a=b,c=d\nbaggage: k=v;p=1,l=w\nuser-agent: x\n",
    "cookie: a=b\nexpect: 100-continue\nhost: h\nte: trailers\nproxy-authorization: x\nx-data-parallel-rank: 1\naccept: */*\n",
  ),
  words: texts(
    ...[
      "\n",
      ":",
      ",",
      ";",
      " ",
      "=",
      "\t",
      "-",
      "x-",
      "X-FORWARDED-",
      "x-router-",
      "connection: ",
      "close",
      "é",
      "\u0000",
      "\u00ff",
      "00-",
      "ff-",
    ],
    ...[
      "keep-alive",
      "authorization",
      "X-Api-Key: ",
      "transfer-encoding",
      "0".repeat(40),
      "content-length: 5\n",
      "__proto__: 1\n",
      "x-request-id: ",
    ],
  ),
  run(input, random) {
    const headers = new Headers();
    for (const line of latin1.decode(input).split("\n")) {
      const colon = line.indexOf(":");
      try {
        headers.append(line.slice(0, colon), line.slice(colon + 1));
      } catch {
        // What is no header does not come this far.
      }
    }
    const clientChecked = random.next() < 0.5;
    const out = outgoingHeaders(headers, { clientChecked }).with({});
    const named = (headers.get("connection") ?? "").split(",").map((name) => name.trim().toLowerCase());
    for (const [name, value] of Object.entries(out)) {
      check(!NEVER.test(name), `${name} went on`);
      if (name === "content-type" || name === "accept-encoding") continue;
      check(!named.includes(name), `${name} went on, though Connection names it`);
      check(value === headers.get(name), `${name} has changed`);
      check(
        !clientChecked || !["authorization", "x-api-key", "api-key"].includes(name),
        `${name} went on, though it was checked`,
      );
    }
    check(out["accept-encoding"] === "identity" && out["content-type"] === "application/json", "the leg's own headers");
    // A real header list takes all of it.
    new Headers(out);

    check(/^[\w.:@+/=~-]{1,128}$/.test(requestId(headers)), "a request id that is none");
    const record = createRecord(0, 0);
    beginTrace(record, headers);
    check(/^[0-9a-f]{32}$/.test(record.traceId) && !/^0+$/.test(record.traceId), `trace id ${record.traceId}`);
    check(record.parentSpanId === "" || /^[0-9a-f]{16}$/.test(record.parentSpanId), `span id ${record.parentSpanId}`);
    new Headers({ tracestate: record.traceState, baggage: record.baggage });
    for (const [name] of passedHeaders(headers)) {
      check(name === "retry-after" || name.startsWith("x-ratelimit-"), `an engine's ${name} reached the client`);
    }
  },
};
