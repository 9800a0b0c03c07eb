/** Below it the engine numbers its own requests. */
const LEAST = 2n ** 40n;

// `getRandomValues` costs more than all the rest, so it is asked for many ids at a time. Filled on first use: Workers refuse
// random values outside a request.
const pool = new BigUint64Array(64);
let unused = 0;

/**
 * A fresh `disagg_request_id` for one attempt at TensorRT-LLM: 2^40 ≤ id < 2^63, unique among live requests by its 63 random bits.
 * As exact digits, since most of them are no exact JavaScript number.
 *
 * @param random unsigned integers of 64 bits
 */
export function disaggRequestId(random: () => bigint = pooledBits): string {
  for (;;) {
    const id = BigInt.asUintN(63, random());
    if (id >= LEAST) return id.toString();
  }
}

function pooledBits(): bigint {
  if (unused === 0) {
    crypto.getRandomValues(pool);
    unused = pool.length;
  }
  unused -= 1;
  return pool[unused]!;
}
