/** From sched(7). A thread under `BATCH` has the same share of the processor, but interrupts nobody when it wakes. */
const SCHED_OTHER = 0;
const SCHED_BATCH = 3;

/**
 * Starts Bun's HTTP client thread so that it does not take the processor from the JavaScript thread each time it has something to do. Plain
 * HTTP has no need of it (`bun-http/`); legs over TLS have.
 *
 * The two share a core wherever the router has no more than one (a container's limit, a busy machine). The kernel then stops JavaScript
 * twice per request, for each leg's few microseconds of work; left to wait until JavaScript waits, the thread does many legs at once: 15 %
 * less per request and per event, a quarter more requests per second. With idle cores there is nothing to take and nothing changes.
 *
 * A thread begins with the policy of the one that starts it, and this one is started by the first `fetch`. So for that moment the calling
 * thread has the policy it is to have. Linux with glibc only (musl has no such call); anywhere else, or where it is forbidden, all stays as
 * it is.
 */
export async function startHttpThread(): Promise<void> {
  if (process.platform !== "linux") return;
  try {
    const { dlopen, ptr } = await import("bun:ffi");
    const { symbols, close } = dlopen("libc.so.6", {
      sched_getscheduler: { args: ["i32"], returns: "i32" },
      sched_setscheduler: { args: ["i32", "i32", "ptr"], returns: "i32" },
    });
    // Whoever started the process under another policy has chosen it for all its threads.
    if (symbols.sched_getscheduler(0) !== SCHED_OTHER) return close();
    const noPriority = new Int32Array(1);
    if (symbols.sched_setscheduler(0, SCHED_BATCH, ptr(noPriority)) !== 0) return close();
    let nobody: Promise<unknown>;
    try {
      nobody = fetch("http://localhost/", { unix: "/dev/null" });
    } finally {
      symbols.sched_setscheduler(0, SCHED_OTHER, ptr(noPriority));
    }
    close();
    await nobody.catch(() => {});
  } catch {
    // No such library, or no foreign functions in this build of Bun.
  }
}
