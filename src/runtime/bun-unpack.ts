import { unpackBy } from "./unpack.ts";

/** Content codings (RFC 9110 section 8.4.1) by the names that Bun's `DecompressionStream` has for them; the web standard's types know two of them only. */
const FORMATS: ReadonlyMap<string, string> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
  ["br", "brotli"],
  ["zstd", "zstd"],
]);

/**
 * A body that came compressed although `identity` was asked for, unpacked only as it is read. Bun's own unpacking takes whatever the socket
 * holds at once: 1 MiB on the wire may be 1 GiB in memory before anybody has read a byte.
 */
export const unpackedStream = unpackBy((coding) => {
  const format = FORMATS.get(coding);
  return format === undefined ? undefined : () => new DecompressionStream(format as CompressionFormat);
});

/**
 * The same for a response. `content-encoding` stays among the headers, as it does on the other runtimes, and tells readers that
 * `content-length` is not the text's.
 */
export function unpacked(response: Response): Response {
  const encodings = response.headers.get("content-encoding");
  if (encodings === null || response.body === null || response.headers.get("content-length") === "0") return response;
  const body = unpackedStream(response.body, encodings);
  if (body === undefined) return response;
  const { status, statusText, headers } = response;
  return new Response(body, { status, statusText, headers });
}
