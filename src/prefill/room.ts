/** Where a room's random bits come from: unsigned integers of 64 bits. */
export type RandomBits = () => bigint;

/** SGLang reads a room as a signed 64-bit integer and refuses negative ones. */
const MAX_ROOM = 2n ** 63n - 1n;

// One call of `getRandomValues` costs about as much as the whole room arithmetic, so it is asked for many rooms at a time.
// Filled on first use: Workers refuse random values outside a request.
const pool = new BigUint64Array(128);
let unused = 0;

function pooledBits(): bigint {
  if (unused === 0) {
    crypto.getRandomValues(pool);
    unused = pool.length;
  }
  unused -= 1;
  return pool[unused]!;
}

/**
 * A bootstrap room, 0 … 2^63−1: where decode meets its prefill. 63 random bits keep it unique among live requests, also between
 * routers that do not know of each other (4096 live requests collide once in 10^12 such moments).
 *
 * SGLang's prefill takes `room mod dpSize` as its data-parallel rank, so a wanted `rank` decides the room's remainder; without one
 * the room decides the rank. A room is a bigint, because most of them are no exact JavaScript number.
 *
 * Throws a `RangeError` when `dpSize` is no positive integer or `rank` is not below it.
 */
export function bootstrapRoom(dpSize: number, rank?: number, random: RandomBits = pooledBits): bigint {
  if (!Number.isSafeInteger(dpSize) || dpSize < 1) {
    throw new RangeError(`Data-parallel size must be a positive integer, got "${dpSize}"`);
  }
  const room = BigInt.asUintN(63, random());
  if (rank === undefined) return room;
  if (!Number.isSafeInteger(rank) || rank < 0 || rank >= dpSize) {
    throw new RangeError(`Data-parallel rank must be an integer from 0 to ${dpSize - 1}, got "${rank}"`);
  }
  // Every room has remainder 0 then, and most pools are of this kind.
  if (dpSize === 1) return room;
  const size = BigInt(dpSize);
  const wanted = room - (room % size) + BigInt(rank);
  return wanted > MAX_ROOM ? wanted - size : wanted;
}

/**
 * `count` distinct rooms of one request, one per item of a batch, all with the same `rank` if one is wanted. Throws a `RangeError`
 * like `bootstrapRoom`, and when `random` repeats itself without end.
 */
export function bootstrapRooms(
  count: number,
  dpSize: number,
  rank?: number,
  random: RandomBits = pooledBits,
): bigint[] {
  const rooms = new Set<bigint>();
  let repeats = 0;
  while (rooms.size < count) {
    const before = rooms.size;
    rooms.add(bootstrapRoom(dpSize, rank, random));
    // 63 random bits all but never repeat; a source that does so again and again would keep us here forever.
    if (rooms.size === before && ++repeats > 64) throw new RangeError("Random source repeats itself");
  }
  return [...rooms];
}

/** The data-parallel rank that SGLang's prefill takes from a room. */
export function roomRank(room: bigint, dpSize: number): number {
  return Number(room % BigInt(dpSize));
}

/** A room as JSON: exact digits, where a number would lose the last ones. */
export function roomText(room: bigint): string {
  return room.toString();
}

/** The rooms of a batch as a JSON array. */
export function roomsText(rooms: readonly bigint[]): string {
  return `[${rooms.join(",")}]`;
}
