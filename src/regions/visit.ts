import { type Place, parsePlace, placeOfPlatform } from "./place.ts";

/** What the choice of a pool has to know of a request's client. */
export interface Visit {
  /** Where the client is; undefined where nobody knows: then the router's own place counts. */
  readonly place: Place | undefined;
  /** Regions that the request must not leave (`allowedRegions` of its key); undefined: it may go anywhere. */
  readonly allowedRegions: readonly string[] | undefined;
}

/**
 * Reads it from a request: the platform's own knowledge first (`request.cf` on Workers; no client can write that), else the header that
 * the operator trusts.
 */
export function visitOf(
  request: Request,
  geoHeader: string | undefined,
  allowedRegions: readonly string[] | undefined,
): Visit {
  const place =
    placeOfPlatform((request as { cf?: unknown }).cf) ??
    (geoHeader === undefined ? undefined : parsePlace(request.headers.get(geoHeader)));
  return { place, allowedRegions };
}
