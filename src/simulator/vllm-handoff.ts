import { canonical, integerText, isRecord, type JsonRecord, numberOf } from "./json.ts";
import type { Prompt } from "./prompt.ts";
import type { RoleCall } from "./role.ts";
import { hashText } from "./vocabulary.ts";

/** Tokens per KV block. */
export const blockSize = 32;

/** What decode needs to read prefill's blocks. */
export interface KvReference {
  engineId: string;
  requestId: string;
  host: string;
  port: number;
  blocks: number;
  /** The object as it came, canonical: prefill's ledger compares it with what it gave. */
  object: string;
}

/**
 * The hand-off as it goes over the wire, in the engine's member order. Block ids and an extension above 2^53 are there
 * so that a router that rounds or drops anything is found out.
 */
export function makeHandoff(
  from: { engineId: string; requestId: string; host: string; port: number; cached: number; expiresAt: number },
  prompt: Prompt,
): string {
  const blocks: number[] = [];
  const first = 1 + (Number.parseInt(hashText(from.requestId).slice(-4), 16) % 4096);
  for (let at = 0; at < Math.ceil(prompt.tokens / blockSize); at++) blocks.push(first + at);
  const members = [
    '"do_remote_prefill":true',
    '"do_remote_decode":false',
    `"remote_block_ids":[[${blocks.join(",")}]]`,
    `"remote_engine_id":${JSON.stringify(from.engineId)}`,
    `"remote_request_id":${JSON.stringify(from.requestId)}`,
    `"remote_host":${JSON.stringify(from.host)}`,
    `"remote_port":${from.port}`,
    '"tp_size":1',
    '"dcp_size":1',
    '"pp_size":1',
    `"remote_num_tokens":${prompt.tokens}`,
    `"remote_blocks_expiry_time":${(from.expiresAt / 1000).toFixed(3)}`,
    '"transfer_mode":"pull"',
    `"remote_prefill_cached_tokens":${from.cached}`,
    `"remote_epoch":${9_007_199_254_740_993n + 2n * BigInt(first)}`,
  ];
  return `{${members.join(",")}}`;
}

/** Reads a hand-off on decode. Undefined: malformed, and that is what kills the engine. */
export function readHandoff(params: JsonRecord): KvReference | undefined {
  const { remote_engine_id: engineId, remote_request_id: requestId, remote_host: host } = params;
  const port = numberOf(params.remote_port);
  const blocks = countBlocks(params);
  if (typeof engineId !== "string" || typeof requestId !== "string" || typeof host !== "string") return undefined;
  if (port === undefined || blocks === 0) return undefined;
  return { engineId, requestId, host, port, blocks, object: canonical(params) };
}

/** `remote_block_ids` is a list of lists (one per KV group) or a flat list. */
function countBlocks(params: JsonRecord): number {
  const ids = params.remote_block_ids;
  if (!Array.isArray(ids)) return 0;
  const flat = ids.every((id) => integerText(id) !== undefined);
  if (flat) return ids.length;
  return Math.max(0, ...ids.map((group) => (Array.isArray(group) ? group.length : 0)));
}

/** What NIXL push pairs two legs by: the engine's own id of a request, from its header, for responses from its body alone. */
export function pushName({ ask, request }: RoleCall): string | null {
  if (ask.api !== "responses") return request.headers.get("x-request-id");
  const { request_id } = ask.body;
  return typeof request_id === "string" ? request_id : crypto.randomUUID();
}

export function isRemotePrefill(params: unknown): params is JsonRecord {
  return isRecord(params as JsonRecord) && (params as JsonRecord).do_remote_prefill === true;
}
