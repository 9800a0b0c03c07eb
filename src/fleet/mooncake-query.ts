import type { MooncakeRank } from "../workers/worker.ts";

/**
 * Reads what a Mooncake bootstrap server answers to `GET /query`: engine ids by data-parallel rank, ascending. Undefined when it names
 * none.
 */
export function readMooncakeRanks(json: unknown): MooncakeRank[] | undefined {
  if (typeof json !== "object" || json === null) return undefined;
  const ranks: MooncakeRank[] = [];
  for (const [rank, told] of Object.entries(json)) {
    const engineId: unknown = (told as { engine_id?: unknown } | null)?.engine_id;
    if (/^\d{1,6}$/.test(rank) && typeof engineId === "string" && engineId !== "") {
      ranks.push({ rank: Number(rank), engineId });
    }
  }
  return ranks.length > 0 ? ranks.sort((a, b) => a.rank - b.rank) : undefined;
}
