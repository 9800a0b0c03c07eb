const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Random bytes by the batch: one `getRandomValues` of 24 bytes a request would be the dearest part of an id. */
const pool = new Uint8Array(4096);
let used = pool.length; // filled on first use: Workers refuse randomness while a module is loaded

/** 32 hex digits, never all zero (W3C Trace Context 3.2.2.3). */
export function newTraceId(): string {
  return randomHex(16);
}

/** 16 hex digits, never all zero. */
export function newSpanId(): string {
  return randomHex(8);
}

function randomHex(bytes: number): string {
  if (used + bytes > pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  let text = "";
  let any = 0;
  for (const end = used + bytes; used < end; used++) {
    const byte = pool[used]!;
    any |= byte;
    text += HEX[byte];
  }
  return any === 0 ? randomHex(bytes) : text;
}
