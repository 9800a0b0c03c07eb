import { describe, expect, test } from "bun:test";
import { resolveHost } from "../../src/runtime/resolve-host.ts";

describe("resolveHost", () => {
  test("gives the addresses of a host, each once, as the system knows them", async () => {
    const found = await resolveHost("localhost");
    expect(found.length).toBeGreaterThan(0);
    expect(new Set(found).size).toBe(found.length);
    for (const address of found) expect(["127.0.0.1", "::1"]).toContain(address);
  });

  test("rejects for a name that nobody has", async () => {
    await expect(resolveHost("nobody.invalid")).rejects.toThrow();
  });
});
