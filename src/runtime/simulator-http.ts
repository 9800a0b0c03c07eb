/**
 * The request half of HTTP/1.1 as a simulated engine needs it: real framing (content-length, chunks, keep-alive), since
 * a client that frames its body wrongly must fail here as it would at the engine.
 */

/** A request as it stood on the wire. */
export interface WireRequest {
  method: string;
  /** Request target as sent, with its query string. */
  target: string;
  headers: Headers;
  body: string;
  keepAlive: boolean;
  expectContinue: boolean;
}

/** The head breaks RFC 9112; the connection cannot be used further. */
export class MalformedRequest extends Error {
  override readonly name = "MalformedRequest";
}

const maxHeadBytes = 65_536;
const crlfCrlf = Uint8Array.of(13, 10, 13, 10);

/** Collects bytes of one connection and cuts them into requests. */
export class RequestReader {
  #chunks: Buffer[] = [];
  #length = 0;
  #head: { request: WireRequest; chunked: boolean; length: number } | undefined;

  push(bytes: Buffer): void {
    this.#chunks.push(bytes);
    this.#length += bytes.length;
  }

  /** Whether a request has begun and is not whole yet. */
  get midRequest(): boolean {
    return this.#length > 0 || this.#head !== undefined;
  }

  /** The head of the request that is being read, once it is there. */
  get pendingHead(): WireRequest | undefined {
    return this.#head?.request;
  }

  /** The next whole request, or undefined while bytes are missing. Throws MalformedRequest. */
  next(): WireRequest | undefined {
    if (this.#head === undefined) this.#readHead();
    const head = this.#head;
    if (head === undefined) return undefined;
    if (!head.chunked) {
      // Joining only when all is there keeps a large body linear.
      if (this.#length < head.length) return undefined;
      const all = this.#joined();
      return this.#take(head.request, all.toString("utf8", 0, head.length), head.length);
    }
    const all = this.#joined();
    const read = readChunks(all);
    return read === undefined ? undefined : this.#take(head.request, read.body, read.used);
  }

  #readHead(): void {
    if (this.#length === 0) return;
    const all = this.#joined();
    const end = all.indexOf(crlfCrlf);
    if (end < 0) {
      if (all.length > maxHeadBytes) throw new MalformedRequest("The head is larger than 64 KiB");
      return;
    }
    this.#head = parseHead(all.toString("latin1", 0, end));
    this.#drop(all, end + 4);
  }

  #take(request: WireRequest, body: string, used: number): WireRequest {
    this.#head = undefined;
    this.#drop(this.#joined(), used);
    return { ...request, body };
  }

  #joined(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] as Buffer;
  }

  #drop(all: Buffer, count: number): void {
    const rest = all.subarray(count);
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#length = rest.length;
  }
}

function parseHead(text: string): { request: WireRequest; chunked: boolean; length: number } {
  const lines = text.split("\r\n");
  const start = /^([!#$%&'*+.^_`|~\w-]+) (\S+) HTTP\/1\.([01])$/.exec(lines[0] ?? "");
  if (start === null) throw new MalformedRequest(`Expected a request line, got "${lines[0]}"`);
  const headers = new Headers();
  for (const line of lines.slice(1)) {
    const colon = line.indexOf(":");
    if (colon <= 0 || /\s/.test(line.slice(0, colon))) throw new MalformedRequest(`Expected a header, got "${line}"`);
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  const encoding = headers.get("transfer-encoding")?.toLowerCase();
  const length = headers.get("content-length");
  if (encoding !== undefined && encoding !== "chunked") throw new MalformedRequest(`Unknown coding "${encoding}"`);
  // Both at once is how requests are smuggled (RFC 9112, 6.3).
  if (encoding !== undefined && length !== null) throw new MalformedRequest("Both content-length and chunks");
  if (length !== null && !/^\d{1,15}$/.test(length)) throw new MalformedRequest(`Bad content-length "${length}"`);
  const connection = (headers.get("connection") ?? "").toLowerCase();
  const keepAlive = start[3] === "1" ? !connection.includes("close") : connection.includes("keep-alive");
  const request: WireRequest = {
    method: start[1] as string,
    target: start[2] as string,
    headers,
    body: "",
    keepAlive,
    expectContinue: (headers.get("expect") ?? "").toLowerCase() === "100-continue",
  };
  return { request, chunked: encoding === "chunked", length: Number(length ?? 0) };
}

/** A chunked body, or undefined while it is incomplete. Trailers are read and dropped. */
function readChunks(bytes: Buffer): { body: string; used: number } | undefined {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const sizeText = bytes.toString("latin1", at, lineEnd).split(";")[0]?.trim() ?? "";
    if (!/^[0-9a-fA-F]{1,8}$/.test(sizeText)) throw new MalformedRequest(`Bad chunk size "${sizeText}"`);
    const size = Number.parseInt(sizeText, 16);
    at = lineEnd + 2;
    if (size === 0) {
      const end = readTrailers(bytes, at);
      return end === undefined ? undefined : { body: Buffer.concat(parts).toString("utf8"), used: end };
    }
    if (bytes.length < at + size + 2) return undefined;
    parts.push(bytes.subarray(at, at + size));
    if (bytes[at + size] !== 13 || bytes[at + size + 1] !== 10)
      throw new MalformedRequest("A chunk is longer than it says");
    at += size + 2;
  }
}

function readTrailers(bytes: Buffer, from: number): number | undefined {
  let at = from;
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    if (lineEnd === at) return at + 2;
    at = lineEnd + 2;
  }
}
