const key = '"sequence_number"';

/**
 * What `sequence_number` comes after the last one in this block of responses events (decoded one byte to one character); `otherwise` when it
 * has none. Lets the relay number its own error frame without parsing the events before it: the last block is kept, and read when needed.
 */
export function sequenceAfter(latin1: string, otherwise: number): number {
  for (let at = latin1.lastIndexOf(key); at >= 0; at = at === 0 ? -1 : latin1.lastIndexOf(key, at - 1)) {
    const number = /^\s*:\s*(\d{1,15})/.exec(latin1.slice(at + key.length, at + key.length + 40));
    if (number !== null) return Number(number[1]) + 1;
  }
  return otherwise;
}
