/** Streams at once that make a crowd. */
const CROWD = 256;
/** The crowd has left when so small a part of it is there. Few are then kept waiting by the collection. */
const REST = 1 / 8;
const LOOK_MS = 250;

/**
 * Collects once after each crowd of streams. A thousand of them put the collector's next limit far away, and prompts of 64 KB then fill that
 * with bytes that are real: 250 MB where 210 do. Over TLS it is worse: for every body that `fetch` reads Bun counts a buffer of 64 KB, used or
 * not, and the process grows to 570 MB. A full collection (15 ms after a thousand streams) brings the limit back. It must be the synchronous one: what
 * `Bun.gc(false)` starts leaves most of it.
 *
 * @param active how many requests there are
 * @returns what stops it
 */
export function collectAfterCrowds(active: () => number, collect: () => void = () => Bun.gc(true)): () => void {
  const leaves = crowdWatch();
  const timer = setInterval(() => {
    if (leaves(active())) collect();
  }, LOOK_MS);
  return () => clearInterval(timer);
}

/** Told again and again how many there are, says once per crowd that it has left. */
export function crowdWatch(): (active: number) => boolean {
  let most = 0;
  return function leaves(active) {
    most = Math.max(most, active);
    if (most < CROWD || active > most * REST) return false;
    most = active;
    return true;
  };
}
