import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { bootstrapRoom, bootstrapRooms, roomRank, roomsText, roomText } from "../../src/prefill/room.ts";

const TOP = 2n ** 63n - 1n;

describe("a bootstrap room", () => {
  test("is within 0 … 2^63−1 and has the wanted rank, whatever the random bits", () => {
    const bits = fc.oneof(
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      fc.constantFrom(0n, TOP, 2n ** 63n, 2n ** 64n - 1n),
    );
    const ranks = fc.integer({ min: 1, max: 5000 }).chain((size) => fc.tuple(fc.constant(size), fc.nat(size - 1)));
    fc.assert(
      fc.property(bits, ranks, (random, [size, rank]) => {
        const room = bootstrapRoom(size, rank, () => random);
        expect(room >= 0n && room <= TOP).toBe(true);
        expect(room % BigInt(size)).toBe(BigInt(rank));
        expect(roomRank(room, size)).toBe(rank);
        // Only as far from the random bits as the remainder needs: the entropy stays.
        const distance = room - BigInt.asUintN(63, random);
        expect(distance < BigInt(size) && -distance < BigInt(size)).toBe(true);
      }),
    );
  });

  test("is unique among many, across the batches that random bits are drawn in", () => {
    const rooms = new Set<bigint>();
    for (let i = 0; i < 10_000; i++) rooms.add(bootstrapRoom(4));
    expect(rooms.size).toBe(10_000);
    const ranks = new Set([...rooms].map((room) => roomRank(room, 4)));
    expect([...ranks].sort()).toEqual([0, 1, 2, 3]);
  });

  test("is most often no exact JavaScript number, and its text is exact all the same", () => {
    expect(roomText(TOP)).toBe("9223372036854775807");
    expect(roomText(0n)).toBe("0");
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: TOP }), (room) => {
        const text = roomText(room);
        expect(text).toMatch(/^(0|[1-9]\d*)$/);
        expect(BigInt(text)).toBe(room);
      }),
    );
    expect(Number.isSafeInteger(Number(bootstrapRoom(1, 0, () => TOP)))).toBe(false);
  });

  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])("refuses a data-parallel size of %p", (size) => {
    expect(() => bootstrapRoom(size)).toThrow(RangeError);
  });

  test.each([-1, 4, 0.5, Number.NaN])("refuses rank %p of 4", (rank) => {
    expect(() => bootstrapRoom(4, rank)).toThrow(RangeError);
  });
});

describe("the rooms of a batch", () => {
  test("are distinct, share the wanted rank, and print as an exact JSON array", () => {
    const rooms = bootstrapRooms(200, 8, 3);
    expect(new Set(rooms).size).toBe(200);
    expect(rooms.every((room) => roomRank(room, 8) === 3)).toBe(true);
    const text = roomsText(rooms);
    expect(text.slice(1, -1).split(",").map(BigInt)).toEqual(rooms);
    expect(JSON.parse(text)).toHaveLength(200);
    expect(roomsText([])).toBe("[]");
  });

  test("stay distinct when random bits repeat, and do not loop on a source that only repeats", () => {
    let draws = 0;
    expect(bootstrapRooms(3, 1, undefined, () => BigInt(Math.floor(draws++ / 2)))).toEqual([0n, 1n, 2n]);
    expect(() => bootstrapRooms(2, 1, undefined, () => 5n)).toThrow(RangeError);
  });
});
