import { invalidHandoff } from "./failures.ts";

/**
 * Checks a NIXL hand-off before it may reach decode. One with null or empty blocks, or without a request id, does not fail there:
 * it kills the engine for everybody (seen on a real pair, wire: vLLM, NIXL). Members that are not named here are the engines' own.
 *
 * @throws Failure `invalid_handoff`, which says what is wrong
 */
export function checkNixlHandoff(value: unknown): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidHandoff('Prefill\'s "kv_transfer_params" is not an object');
  }
  const params = value as Record<string, unknown>;
  if (params.do_remote_prefill !== true) throw wrong("do_remote_prefill", "is not true");
  if (!holdsBlocks(params.remote_block_ids)) throw wrong("remote_block_ids", "holds no block ids");
  requireText(params, "remote_engine_id");
  requireText(params, "remote_request_id");
  requireText(params, "remote_host");
  const port = params.remote_port;
  if (!Number.isInteger(port) || (port as number) < 1 || (port as number) > 65535) {
    throw wrong("remote_port", "is not a port");
  }
}

/** No hand-off at all, which the engine may well mean: absent, null or `{}`. */
export function isNoHandoff(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0;
}

/** A flat list of ids, or a list per cache group, of which some may be empty. At least one id. */
function holdsBlocks(blocks: unknown): boolean {
  if (!Array.isArray(blocks)) return false;
  let ids = 0;
  for (const block of blocks) {
    if (Array.isArray(block)) {
      if (!block.every(isBlockId)) return false;
      ids += block.length;
    } else if (isBlockId(block)) {
      ids++;
    } else {
      return false;
    }
  }
  return ids > 0;
}

function isBlockId(id: unknown): boolean {
  return Number.isInteger(id) && (id as number) >= 0;
}

function requireText(params: Record<string, unknown>, key: string): void {
  const text = params[key];
  if (typeof text !== "string" || text === "") throw wrong(key, "is missing");
}

function wrong(key: string, what: string) {
  return invalidHandoff(`Prefill gave no usable hand-off: "${key}" ${what}`);
}
