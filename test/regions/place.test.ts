import { describe, expect, test } from "bun:test";
import { distanceKm, estimatedRoundTripMs, parsePlace, placeOfPlatform } from "../../src/regions/place.ts";
import { visitOf } from "../../src/regions/visit.ts";

const DUBLIN = { latitude: 53.3, longitude: -6.3 };
const VIRGINIA = { latitude: 38.9, longitude: -77.4 };

describe("distance", () => {
  test("is what an atlas says, both ways, over the date line too, and 0 to oneself", () => {
    expect(distanceKm(DUBLIN, VIRGINIA)).toBeWithin(5_400, 5_500);
    expect(distanceKm(VIRGINIA, DUBLIN)).toBeCloseTo(distanceKm(DUBLIN, VIRGINIA), 6);
    expect(distanceKm({ latitude: 0, longitude: 179 }, { latitude: 0, longitude: -179 })).toBeWithin(220, 225);
    expect(distanceKm(DUBLIN, DUBLIN)).toBe(0);
  });

  test("a round trip over the Atlantic is estimated as it is measured there", () => {
    expect(estimatedRoundTripMs(distanceKm(DUBLIN, VIRGINIA))).toBeWithin(70, 100);
  });
});

describe("the client's place", () => {
  test("a header of two numbers is a place; anything else is none, and never an error", () => {
    expect(parsePlace("53.3, -6.3")).toEqual(DUBLIN);
    for (const text of [null, undefined, "", "53.3", "53.3,", ",", "a,b", "91,0", "0,181", "1,2,3", "NaN,0"]) {
      expect(parsePlace(text)).toBeUndefined();
    }
  });

  test("the platform tells it as text; half a place is none", () => {
    expect(placeOfPlatform({ latitude: "53.3", longitude: "-6.3", country: "IE" })).toEqual(DUBLIN);
    for (const cf of [undefined, null, "53.3,-6.3", {}, { latitude: "53.3" }, { latitude: null, longitude: null }]) {
      expect(placeOfPlatform(cf)).toBeUndefined();
    }
  });

  test("the platform's word counts before the header, and no header counts that the operator has not named", () => {
    const request = new Request("http://router/", { headers: { "x-client-geo": "38.9,-77.4" } });
    expect(visitOf(request, undefined, undefined).place).toBeUndefined();
    expect(visitOf(request, "x-client-geo", undefined).place).toEqual(VIRGINIA);
    const onPlatform = Object.assign(request, { cf: DUBLIN });
    expect(visitOf(onPlatform, "x-client-geo", undefined).place).toEqual(DUBLIN);
  });
});
