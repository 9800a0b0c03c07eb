/** Whether the runtime could not open a file, or a socket, for want of room among those that are open. */
export function isOutOfFiles(error: unknown): boolean {
  const code = (error as { code?: unknown } | undefined)?.code;
  return code === "EMFILE" || code === "ENFILE";
}

/** Of our own making: no engine is to blame. */
export function outOfFiles(cause: unknown): Error {
  return new Error("No files are left to this process (ulimit -n)", { cause });
}
