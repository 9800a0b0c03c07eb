import { stat } from "node:fs/promises";

/** How often the file is looked at. A few microseconds each time, and the longest a change waits. */
const LOOK_MS = 1_000;

/**
 * Calls `changed` after the file has become another one; returns what ends the watching. It looks at the file instead of asking the
 * system for events: those follow an inode, while mounted configuration maps swap a link above it, editors replace files, and network
 * file systems tell of nothing. A change is told once it has stood still for one look, so that nobody reads half a file; a file that is
 * gone is no change, it may be about to be replaced. Works on Bun, Deno and Node.
 */
export function watchFile(path: string, changed: () => void, lookMs = LOOK_MS): () => void {
  let known: string | undefined;
  let seen: string | undefined;
  let looking = false;
  const timer = setInterval(look, lookMs);
  timer.unref?.();
  void look();
  return () => clearInterval(timer);

  async function look(): Promise<void> {
    if (looking) return;
    looking = true;
    const now = await mark(path);
    looking = false;
    if (now === undefined) return;
    const steady = now === seen;
    seen = now;
    if (known === undefined) known = now;
    else if (steady && now !== known) {
      known = now;
      changed();
    }
  }
}

async function mark(path: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeMs } = await stat(path);
    return `${ino}/${size}/${mtimeMs}`;
  } catch {
    return undefined;
  }
}
