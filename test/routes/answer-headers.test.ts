import { expect, test } from "bun:test";
import { AnswerHeaders } from "../../src/routes/answer-headers.ts";
import { createRecord, type RequestRecord } from "../../src/telemetry/record.ts";

const headers = new AnswerHeaders({ "content-type": "application/json" });

function record(more: Partial<RequestRecord>): RequestRecord {
  return { ...createRecord(0, 0), id: "1", path: "disaggregated", pool: "a", prefill: "p1", decode: "d1", ...more };
}

function response(more: Partial<RequestRecord>): Response {
  return new Response("", { headers: headers.of(record(more)) });
}

test("are each request's own, whatever came before from the same worker", () => {
  const first = response({});
  const others = [
    response({ id: "2", prefill: "p2" }),
    response({ id: "3", decode: "d2" }),
    response({ id: "4", prefill: "", path: "aggregated" }),
    response({ id: "5", pool: "b" }),
    response({ id: "6", prefill: "", decode: "", pool: "", path: "" }),
  ];
  const all = (answer: Response) => Object.fromEntries(answer.headers);
  const common = { "content-type": "application/json" };
  expect(all(first)).toEqual({
    ...common,
    "x-request-id": "1",
    "x-router-path": "disaggregated",
    "x-router-pool": "a",
    "x-router-prefill": "p1",
    "x-router-decode": "d1",
  });
  expect(others.map(all)).toEqual([
    { ...all(first), "x-request-id": "2", "x-router-prefill": "p2" },
    { ...all(first), "x-request-id": "3", "x-router-decode": "d2" },
    {
      ...common,
      "x-request-id": "4",
      "x-router-path": "aggregated",
      "x-router-pool": "a",
      "x-router-decode": "d1",
    },
    { ...all(first), "x-request-id": "5", "x-router-pool": "b" },
    { ...common, "x-request-id": "6" },
  ]);
});

test("are not shared with a response that keeps what it is given", () => {
  const first = headers.of(record({}));
  first.append("set-cookie", "session=1");
  const second = headers.of(record({ id: "2" }));
  expect([first.get("x-request-id"), second.get("set-cookie")]).toEqual(["1", null]);
});

test("of workers without end do not pile up", () => {
  for (let i = 0; i < 10_000; i++) headers.of(record({ decode: `gone-${i}` }));
  expect(headers.size).toBeLessThanOrEqual(4_096);
});
