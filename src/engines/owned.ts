/**
 * Members that belong to the router (contract section 8). A client's own are removed before any leg is sent, every top-level
 * occurrence: they name rooms, hand-offs, request ids and ranks, with which one client could reach into another's request.
 */
export const ownedMembers: ReadonlySet<string> = new Set([
  "bootstrap_host",
  "bootstrap_port",
  "bootstrap_room",
  "bootstrap_pair_key",
  "kv_transfer_params",
  "ec_transfer_params",
  "disaggregated_params",
  "rid",
  "request_id",
  "data_parallel_rank",
  "routed_dp_rank",
  "disagg_prefill_dp_rank",
]);

/** The router's members and more to drop with them; made once per dialect, since a `Set` per request costs a microsecond. */
export function ownedAnd(...more: readonly string[]): ReadonlySet<string> {
  return new Set([...ownedMembers, ...more]);
}
