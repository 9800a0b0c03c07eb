import { describe, expect, test } from "bun:test";
import { legTrace } from "../../src/legs/leg-trace.ts";
import { outgoingHeaders } from "../../src/legs/outgoing-headers.ts";
import { passedHeaders } from "../../src/legs/passed-headers.ts";
import { createRecord } from "../../src/telemetry/record.ts";
import { beginTrace } from "../../src/telemetry/trace-context.ts";

function outgoing(client: Headers, clientChecked = false): Record<string, string> {
  return outgoingHeaders(client, { clientChecked }).with({});
}

describe("a client's headers on their way to an engine", () => {
  test("others pass as they came; lengths, encodings and the content type are the leg's own", () => {
    const client = new Headers({
      "x-tenant": "a, b",
      "user-agent": "me/1",
      accept: "text/event-stream",
      "content-type": "application/vnd.mine+json",
      "content-length": "7",
      "content-encoding": "gzip",
      "accept-encoding": "br",
    });
    expect(outgoing(client)).toEqual({
      "content-type": "application/json",
      "accept-encoding": "identity",
      "x-tenant": "a, b",
      "user-agent": "me/1",
      accept: "text/event-stream",
    });
  });

  test("hop-by-hop headers, those named in Connection, cookies, digests and routing hints stay behind", () => {
    const stay = {
      connection: "keep-alive, X-Mine , x-other",
      "x-mine": "1",
      "x-other": "1",
      "keep-alive": "timeout=5",
      te: "trailers",
      trailer: "x",
      "transfer-encoding": "chunked",
      upgrade: "h2c",
      "proxy-authorization": "Basic x",
      host: "router",
      cookie: "a=b",
      expect: "100-continue",
      "content-md5": "x",
      digest: "x",
      "x-forwarded-for": "10.0.0.1",
      "x-forwarded-host": "h",
      "x-override-worker": "w",
      "x-data-parallel-rank": "3",
      "x-prefiller-host-port": "h:1",
      "x-dynamo-worker": "1",
      "x-smg-target": "1",
      "x-router-timing": "1",
      "x-request-id": "client",
      traceparent: "garbage",
      tracestate: "a=b",
      baggage: "k=v",
    };
    expect(Object.keys(outgoing(new Headers(stay))).sort()).toEqual(["accept-encoding", "content-type"]);
  });

  test("keys pass when the router is open, and do not when it has checked one", () => {
    const client = new Headers({ authorization: "Bearer mine", "x-api-key": "mine", "api-key": "mine" });
    expect(outgoing(client)).toMatchObject({ authorization: "Bearer mine", "x-api-key": "mine" });
    const kept = outgoing(client, true);
    expect(Object.values(kept).join()).not.toContain("mine");
  });
});

describe("trace headers of a leg", () => {
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

  test("a valid context goes on with its companions, byte for byte", () => {
    const record = createRecord(0, 0);
    beginTrace(record, new Headers({ traceparent, tracestate: "vendor=1, b=2", baggage: "user=7;p=1" }));
    expect(legTrace(record, "00000000000000ab")).toEqual({
      traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000ab-01",
      tracestate: "vendor=1, b=2",
      baggage: "user=7;p=1",
    });
  });

  test("companions of an invalid context do not; baggage stands on its own", () => {
    const record = createRecord(0, 0);
    beginTrace(record, new Headers({ traceparent: "00-0-0-00", tracestate: "vendor=1", baggage: "user=7" }));
    const headers = legTrace(record, "");
    expect(headers.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    expect(headers).not.toHaveProperty("tracestate");
    expect(headers.baggage).toBe("user=7");
  });
});

test("of an engine's headers a client sees retry-after and rate limits, and no others", () => {
  const headers = new Headers({
    "retry-after": "3",
    "x-ratelimit-remaining": "9",
    server: "uvicorn",
    "x-internal": "10.0.0.1",
  });
  expect(passedHeaders(headers)).toEqual([
    ["retry-after", "3"],
    ["x-ratelimit-remaining", "9"],
  ]);
  expect(passedHeaders(new Headers())).toEqual([]);
});
