import { type Bytes, pieceOf, unpackBy } from "./unpack.ts";

export interface WebUnpacking {
  /** Content codings by the names that the runtime's `DecompressionStream` has for them. */
  formats: ReadonlyMap<string, string>;
  /** Values of `content-encoding` that the runtime's own `fetch` takes off, whatever was asked for; it leaves the header. */
  unpacked?: ReadonlySet<string>;
}

/** Codings that are surely none of a text (IANA's registry). Under other names servers send plain text, too. */
const PACKED = /(?:^|,)\s*(?:x-)?(?:gzip|deflate|br|zstd|compress|dcb|dcz)\s*(?:,|$)/i;

/**
 * Answers that came compressed although `identity` was asked for, unpacked as they are read, on runtimes with no more than the web's streams.
 * `content-encoding` stays among the headers and tells readers that `content-length` is not the text's. What cannot be unpacked is an engine's
 * error that names the coding: as bytes it would be an answer that makes no sense.
 */
export function unpackByWeb({ formats, unpacked }: WebUnpacking): (response: Response) => Response {
  const unpack = unpackBy((coding) => {
    const format = formats.get(coding);
    return format === undefined ? undefined : () => new DecompressionStream(format as CompressionFormat);
  });
  return function unpackedResponse(response) {
    const { status, statusText, headers, body } = response;
    const encodings = headers.get("content-encoding");
    if (encodings === null || body === null || headers.get("content-length") === "0") return response;
    if (unpacked?.has(encodings) === true) return response;
    const plain = unpack(inPieces(body, pieceOf(encodings)), encodings);
    if (plain !== undefined) return new Response(plain, { status, statusText, headers });
    return PACKED.test(encodings) ? cannotUnpack(response, encodings) : response;
  };
}

/** A stream in pieces so small that each of them may be unpacked at once; nothing is read ahead. */
function inPieces(body: Bytes, piece: number): Bytes {
  let reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined;
  let rest = new Uint8Array(0);
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        // Not before: a body that nobody can unpack is given away as it is.
        reader ??= body.getReader();
        while (rest.length === 0) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          rest = value;
        }
        controller.enqueue(rest.subarray(0, piece));
        rest = rest.subarray(piece);
      },
      cancel: (reason) => (reader ?? body).cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

function cannotUnpack({ body }: Response, encodings: string): Response {
  body?.cancel().catch(ignore);
  const message = `The answer came with content-encoding ${encodings.slice(0, 64)}, which nobody asked for and this runtime cannot unpack`;
  return Response.json({ error: { message } }, { status: 502 });
}

function ignore(): void {}
