/** A point on Earth, degrees. */
export interface Place {
  latitude: number;
  longitude: number;
}

const EARTH_KM = 6371;
const RADIANS = Math.PI / 180;

/** Great-circle distance in kilometres (haversine: exact enough, and stable for near points). */
export function distanceKm(a: Place, b: Place): number {
  const latitude = (b.latitude - a.latitude) * RADIANS;
  const longitude = (b.longitude - a.longitude) * RADIANS;
  const h =
    Math.sin(latitude / 2) ** 2 +
    Math.cos(a.latitude * RADIANS) * Math.cos(b.latitude * RADIANS) * Math.sin(longitude / 2) ** 2;
  return 2 * EARTH_KM * Math.asin(Math.min(1, Math.sqrt(h)));
}

/**
 * What a round trip over that distance is likely to cost: light in fibre makes 100 km of distance one millisecond there and back, real
 * paths are half as long again, and both ends add a little.
 */
export function estimatedRoundTripMs(km: number): number {
  return 2 + km * 0.015;
}

/** `"latitude,longitude"` of a trusted header (contract section 2, `geoHeader`); undefined for anything else. */
export function parsePlace(text: string | null | undefined): Place | undefined {
  const parts = text?.split(",");
  return parts?.length === 2 ? placeOf(parts[0]!.trim(), parts[1]!.trim()) : undefined;
}

/** The place in a platform's description of a request (`request.cf` on Workers: numbers as text). */
export function placeOfPlatform(cf: unknown): Place | undefined {
  if (typeof cf !== "object" || cf === null) return undefined;
  const { latitude, longitude } = cf as { latitude?: unknown; longitude?: unknown };
  return placeOf(latitude, longitude);
}

function placeOf(latitude: unknown, longitude: unknown): Place | undefined {
  if (latitude === "" || longitude === "" || latitude == null || longitude == null) return undefined;
  const place = { latitude: Number(latitude), longitude: Number(longitude) };
  return Math.abs(place.latitude) <= 90 && Math.abs(place.longitude) <= 180 ? place : undefined;
}
