import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";

/** Kernel ticks a second in /proc/…/stat; 100 on every Linux that Bun runs on. */
const TICKS = 100;
const KB = 1024;

/** Load and engines share one core, the router has another. On a machine without `taskset` or with one core nothing is pinned. */
export const LOAD_CORE = 0;
export const ROUTER_CORE = 1;

/** Why the bench cannot run here, or nothing. */
export function unfit(): string | undefined {
  if (!existsSync("/proc/self/stat"))
    return "The bench reads CPU time and memory from /proc, which this system does not have";
  return undefined;
}

/** The command, bound to a core where that can be done. */
export function pinned(core: number, command: readonly string[]): string[] {
  if (cpus().length < 2 || Bun.which("taskset") === null) return [...command];
  return ["taskset", "-c", String(core), ...command];
}

function statOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function attempt<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise; // the process has ended meanwhile
  }
}

/** A process and all its living descendants: routers start workers of their own. */
export function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const parent = Number(attempt(() => statOf(pid)[1], "0"));
    children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

/** User and system seconds of the processes, and of children they have waited for. */
export function cpuSeconds(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    const stat = attempt(() => statOf(pid), []);
    ticks += stat.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  }
  return ticks / TICKS;
}

/** Seconds in which some core was not idle. */
export function machineBusySeconds(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = readFileSync("/proc/stat", "latin1")
    .slice(5, 200)
    .trim()
    .split(/\s+/)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS;
}

export function memoryMb(pids: readonly number[], what: "VmRSS" | "VmHWM"): number {
  const kb = pids.map((pid) => {
    const status = attempt(() => readFileSync(`/proc/${pid}/status`, "latin1"), "");
    return Number(new RegExp(`^${what}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);
  });
  return kb.reduce((sum, each) => sum + each, 0) / KB;
}

/** Peaks are counted from here on. */
export function resetPeak(pids: readonly number[]): void {
  for (const pid of pids) attempt(() => writeFileSync(`/proc/${pid}/clear_refs`, "5"), undefined);
}

export function openFiles(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + attempt(() => readdirSync(`/proc/${pid}/fd`).length, 0), 0);
}

/** Most files a process started from here may have open. */
export function fileLimit(): number {
  return Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1] ?? 1024);
}

const WORK = 2_000_000;

/** Milliseconds of CPU that a fixed piece of work takes here and now: on shared machines the same code does not always cost the same. */
export function calibrationMs(): number {
  const { user, system } = process.cpuUsage();
  let value = 1;
  for (let step = 0; step < WORK; step++) value = (Math.imul(value, 1103515245) + 12345) >>> 0;
  const spent = process.cpuUsage({ user, system });
  return value < 0 ? 0 : (spent.user + spent.system) / 1000;
}
