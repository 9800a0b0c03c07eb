import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchFile } from "../../src/runtime/watch-file.ts";

const LOOK_MS = 5;
let folder: string;
let stop: () => void;
let changes: number;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "watch-"));
  changes = 0;
});

afterEach(async () => {
  stop();
  await rm(folder, { recursive: true });
});

function watch(name: string): void {
  stop = watchFile(join(folder, name), () => changes++, LOOK_MS);
}

/** Long enough for several looks, far less than a test may take. */
const looks = (count = 12) => Bun.sleep(count * LOOK_MS);

async function until(met: () => boolean): Promise<void> {
  for (let i = 0; i < 200 && !met(); i++) await Bun.sleep(LOOK_MS);
}

describe("watchFile", () => {
  test("tells of a file that was written anew, once, and of nothing while nothing changes", async () => {
    await writeFile(join(folder, "router.yaml"), "one");
    watch("router.yaml");
    await looks();
    expect(changes).toBe(0);
    await writeFile(join(folder, "router.yaml"), "three");
    await until(() => changes > 0);
    await looks();
    expect(changes).toBe(1);
  });

  test("sees through a link that is swapped above the file, as mounted configuration maps do it", async () => {
    for (const version of ["v1", "v2"]) await Bun.write(join(folder, version, "router.yaml"), version);
    await symlink("v1", join(folder, "data"));
    watch("data/router.yaml");
    await looks();
    await symlink("v2", join(folder, "data.new"));
    await rename(join(folder, "data.new"), join(folder, "data"));
    await until(() => changes > 0);
    expect(changes).toBe(1);
  });

  test("a file that is gone for a moment is no change until it is back as another one", async () => {
    await writeFile(join(folder, "router.yaml"), "one");
    watch("router.yaml");
    await looks();
    await unlink(join(folder, "router.yaml"));
    await looks();
    expect(changes).toBe(0);
    await writeFile(join(folder, "router.yaml"), "other");
    await until(() => changes > 0);
    expect(changes).toBe(1);
  });

  test("says nothing any more once it was stopped", async () => {
    await writeFile(join(folder, "router.yaml"), "one");
    watch("router.yaml");
    await looks();
    stop();
    await writeFile(join(folder, "router.yaml"), "three");
    await looks();
    expect(changes).toBe(0);
  });
});
