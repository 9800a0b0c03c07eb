import { afterAll } from "bun:test";
import { createServer } from "node:net";

/** What a tiny engine answers, by path; any other path is a 404. */
export type Routes = Record<string, unknown>;

/** Serves fixed JSON on a free loopback port until the file's tests are done. */
export function startEngine(routes: Routes, key?: string): string {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      if (key !== undefined && request.headers.get("authorization") !== `Bearer ${key}`) {
        return Response.json({ error: "no key" }, { status: 401 });
      }
      const body = routes[new URL(request.url).pathname];
      return body === undefined ? Response.json({ detail: "Not Found" }, { status: 404 }) : Response.json(body);
    },
  });
  afterAll(() => server.stop(true));
  return `http://127.0.0.1:${server.port}`;
}

/** An open TCP port with nobody who speaks, as a bootstrap server looks from here. */
export async function openPort(): Promise<number> {
  const server = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  afterAll(() => void server.close());
  return (server.address() as { port: number }).port;
}

export function modelList(owner: string, ...ids: string[]): Routes {
  return { "/v1/models": { object: "list", data: ids.map((id) => ({ id, object: "model", owned_by: owner })) } };
}

export function sglang(mode: string, more: Routes = {}, path = "/server_info"): Routes {
  return { ...modelList("sglang", "m"), [path]: { disaggregation_mode: mode, version: "0.5.23", dp_size: 1, ...more } };
}
