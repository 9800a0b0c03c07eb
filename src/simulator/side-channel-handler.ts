import { isRecord, parseJson } from "./json.ts";
import { jsonScript, type Script, type SimRequest, silentScript } from "./script.ts";
import type { SideChannel } from "./side-channel.ts";
import { ClientLeft } from "./time.ts";

/** What a bootstrap server tells beside the rooms (Mooncake's `/query`, SGLang's `/health`). */
export interface BootstrapInfo {
  /** Engine id by data-parallel rank. */
  engineIds: readonly string[];
}

/**
 * The tiny HTTP endpoint on a prefill engine's bootstrap port: `POST /rooms/{room}` answers once the blocks were moved,
 * `POST /handoffs/{id}` reads a hand-off, `GET /query` names the engine ids, `GET /health` is 200.
 */
export function sideChannelHandler(
  channel: SideChannel,
  info: BootstrapInfo,
): (request: SimRequest) => Promise<Script> {
  return async function handleSideChannel(request: SimRequest): Promise<Script> {
    if (request.method === "GET" && request.path === "/health") return jsonScript(200, '{"status":"ok"}');
    if (request.method === "GET" && request.path === "/query") return jsonScript(200, describeEngines(info));
    const match = /^\/(rooms|handoffs)\/([^/]+)$/.exec(request.path);
    if (match === null || request.method !== "POST") return jsonScript(404, '{"detail":"Not Found"}');
    const name = decodeURIComponent(match[2] as string);
    const asked = readAsked(request.body);
    if (asked === undefined) return jsonScript(400, '{"detail":"prompt is missing"}');
    try {
      const outcome =
        match[1] === "rooms"
          ? await channel.meet(name, asked.prompt, request.signal)
          : await channel.read(name, asked.object, asked.prompt);
      return jsonScript(200, JSON.stringify({ outcome }));
    } catch (error) {
      if (error instanceof ClientLeft) return silentScript("fin");
      throw error;
    }
  };
}

function describeEngines(info: BootstrapInfo): string {
  const byRank = info.engineIds.map(function describe(id, rank) {
    return [String(rank), { engine_id: id, worker_addr: { "0": { "0": "tcp://127.0.0.1:0" } } }] as const;
  });
  return JSON.stringify(Object.fromEntries(byRank));
}

function readAsked(body: string): { prompt: string; object: string } | undefined {
  try {
    const asked = parseJson(body);
    if (!isRecord(asked) || typeof asked.prompt !== "string") return undefined;
    return { prompt: asked.prompt, object: typeof asked.object === "string" ? asked.object : "" };
  } catch {
    return undefined;
  }
}
