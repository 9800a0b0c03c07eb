/** Milliseconds since the epoch with a fraction: the one clock that engines, load generator and driver share. */
export function wallMs(): number {
  return performance.timeOrigin + performance.now();
}
