import { Failure } from "../errors/failure.ts";
import type { Clock } from "../runtime/clock.ts";

// `fatal`: a body that is not UTF-8 is a 400, never mended in silence. A BOM is not JSON; it is left in, for the scanner to refuse.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Letting go of the memory of so many bytes is worth the call. */
const LONG = 4_096;

/** A body as text, and how many bytes it was: a character may be more than one. */
export interface BodyText {
  text: string;
  bytes: number;
}

/**
 * Reads a JSON request's body as text. Throws or rejects with a Failure: 415 for anything but uncompressed JSON, 413 over the limit, 400 for bad UTF-8
 * and for a body that has not come whole within `ms` (0 = no limit): who sends a byte a minute must not hold a place for ever.
 */
export function readJsonBody(request: Request, limit: number, clock: Clock, ms: number): Promise<BodyText> {
  const { headers } = request;
  const type = headers.get("content-type");
  if (type === null || !isJsonType(type)) {
    throw new Failure("unsupported_media_type", {
      status: 415,
      stage: "router",
      message: `Expected content type "application/json", got ${type === null ? "none" : `"${type.slice(0, 100)}"`}`,
    });
  }
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity") {
    throw new Failure("unsupported_media_type", {
      status: 415,
      stage: "router",
      message: `Expected an uncompressed body, got content encoding "${encoding.slice(0, 100)}"`,
    });
  }
  const length = headers.get("content-length");
  if (length !== null && Number(length) > limit) throw tooLarge(limit);
  const reading: Promise<ArrayBuffer | Uint8Array> =
    length !== null ? request.arrayBuffer() : limitedBody(request, limit);
  // One promise, and no function that waits: of a short request this was a twentieth.
  return new Promise((resolve, reject) => {
    const stop = ms > 0 ? clock.after(ms, () => reject(invalid(`The body did not arrive within ${ms} ms`))) : nothing;
    reading.then(
      (bytes) => {
        stop();
        try {
          resolve(textOf(bytes, limit));
        } catch (error) {
          reject(error);
        }
      },
      (error: unknown) => {
        stop();
        reject(error instanceof Failure ? error : cutShort(error));
      },
    );
  });
}

function textOf(bytes: ArrayBuffer | Uint8Array, limit: number): BodyText {
  const length = bytes.byteLength;
  if (length > limit) throw tooLarge(limit);
  try {
    const text = utf8.decode(bytes);
    // Not at the next collection: the next body then comes to memory that is still in the processor's cache.
    if (bytes instanceof ArrayBuffer && length > LONG) bytes.transfer?.(0);
    return { text, bytes: length };
  } catch {
    throw invalid("The body is not valid UTF-8");
  }
}

export function invalid(message: string, param: string | null = null): Failure {
  return new Failure("invalid_request", { status: 400, stage: "router", message, param });
}

function isJsonType(type: string): boolean {
  if (type === "application/json") return true;
  const name = type.split(";", 1)[0]!.trim().toLowerCase();
  return name === "application/json" || (name.startsWith("application/") && name.endsWith("+json"));
}

/** Without a declared length the limit has to be watched while reading. */
async function limitedBody(request: Request, limit: number): Promise<Uint8Array> {
  const reader = request.body?.getReader();
  if (reader === undefined) return new Uint8Array(0);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > limit) {
      reader.cancel().catch(() => {});
      throw tooLarge(limit);
    }
    chunks.push(value);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

function tooLarge(limit: number): Failure {
  return new Failure("body_too_large", {
    status: 413,
    stage: "router",
    message: `The body is larger than ${limit} bytes`,
  });
}

function cutShort(cause: unknown): Failure {
  return new Failure("invalid_request", { status: 400, stage: "router", message: "The body ended early", cause });
}

function nothing(): void {}
