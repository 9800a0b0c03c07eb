import { expect, test } from "bun:test";
import { targetOf } from "../../../src/runtime/socket-http/origin.ts";

test.each([
  ["http://p1:8000/v1/completions", { host: "p1:8000", hostname: "p1", port: 8_000, path: "/v1/completions" }],
  ["http://p1/generate?x=1", { host: "p1", hostname: "p1", port: 80, path: "/generate?x=1" }],
  ["http://p1:80/", { host: "p1", hostname: "p1", port: 80, path: "/" }],
  [
    "http://[fd00::1]:8000/base/v1/chat/completions",
    { host: "[fd00::1]:8000", hostname: "fd00::1", port: 8_000, path: "/base/v1/chat/completions" },
  ],
])("%s", (url, { path, ...target }) => {
  const start = `POST ${path} HTTP/1.1\r\nhost: ${target.host}\r\nconnection: `;
  expect(targetOf(url)).toEqual({ ...target, start: `${start}keep-alive\r\n`, startClosing: `${start}close\r\n` });
  expect(targetOf(url)).toBe(targetOf(url)!);
});

test.each(["https://p1:8000/v1", "http://user:secret@p1/v1", "ftp://p1/"])("%s is left to fetch", (url) => {
  expect(targetOf(url)).toBeUndefined();
  expect(targetOf(url)).toBeUndefined();
});

test("urls without end do not pile up", () => {
  const first = targetOf("http://kept/0")!;
  for (let i = 1; i < 5_000; i++) targetOf(`http://kept/${i}`);
  expect(targetOf("http://kept/0")).not.toBe(first);
  expect(targetOf("http://kept/0")).toEqual(first);
});
