import { type Dialect, type Kind, MARK, MARK_LENGTH, type Role } from "../protocol.ts";

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: *(\d+)/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked/i;

export interface EngineRequest {
  method: string;
  path: string;
  body: Buffer;
}

/**
 * Collects one HTTP/1.1 request after the other from a connection. Head and body are looked at as bytes: a parsed body
 * would cost the engines more than the answer does.
 */
export class RequestReader {
  #pending: Buffer | undefined;
  #headEnd = -1;
  #head = "";

  /** Takes what has arrived; gives a request once it is whole. Nothing is pipelined by routers, so there is at most one. */
  take(bytes: Buffer): EngineRequest | undefined {
    const all = this.#pending === undefined ? bytes : Buffer.concat([this.#pending, bytes]);
    if (this.#headEnd < 0) {
      const end = all.indexOf(HEAD_END);
      if (end < 0) {
        this.#pending = all;
        return undefined;
      }
      this.#headEnd = end + HEAD_END.length;
      this.#head = all.toString("latin1", 0, this.#headEnd);
    }
    const body = this.#bodyIn(all);
    if (body === undefined) {
      this.#pending = all;
      return undefined;
    }
    const [method = "", path = ""] = this.#head.slice(0, this.#head.indexOf("\r\n")).split(" ", 2);
    this.#pending = undefined;
    this.#headEnd = -1;
    return { method, path, body };
  }

  #bodyIn(all: Buffer): Buffer | undefined {
    const length = LENGTH.exec(this.#head)?.[1];
    if (length !== undefined) {
      const end = this.#headEnd + Number(length);
      return all.length < end ? undefined : all.subarray(this.#headEnd, end);
    }
    return CHUNKED.test(this.#head) ? dechunked(all, this.#headEnd) : all.subarray(0, 0);
  }
}

/** The body of chunks from `at` on, or nothing if the last chunk is not there yet. */
function dechunked(all: Buffer, at: number): Buffer | undefined {
  const parts: Buffer[] = [];
  for (let from = at; ; ) {
    const lineEnd = all.indexOf("\r\n", from);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(all.toString("latin1", from, lineEnd), 16);
    const start = lineEnd + 2;
    if (all.length < start + size + 2) return undefined;
    if (size === 0) return Buffer.concat(parts);
    parts.push(all.subarray(start, start + size));
    from = start + size + 2;
  }
}

const QUOTE = 0x22;
const COLON = 0x3a;
const SPACE = 0x20;

/** Where the value of `"name":` begins at any depth, or -1. Text inside a string has its quotes escaped and cannot be taken for it. */
export function valueAt(body: Buffer, name: string): number {
  const key = `"${name}"`;
  for (let at = body.indexOf(key); at >= 0; at = body.indexOf(key, at + key.length)) {
    let next = at + key.length;
    while (body[next] === SPACE) next++;
    if (body[next] !== COLON) continue;
    next++;
    while (body[next] === SPACE) next++;
    return next;
  }
  return -1;
}

function isTrue(body: Buffer, name: string): boolean {
  const at = valueAt(body, name);
  return at >= 0 && body.toString("latin1", at, at + 4) === "true";
}

export function wantsStream(body: Buffer): boolean {
  return isTrue(body, "stream");
}

export function markIn(body: Buffer): { kind: Kind; number: number } {
  const at = body.indexOf(MARK);
  if (at < 0) return { kind: "p", number: 0 };
  const mark = body.toString("latin1", at + MARK.length, at + MARK_LENGTH);
  return { kind: mark[0] as Kind, number: Number(mark.slice(1)) };
}

/** What a leg of this role lacks, or nothing: a router that leaves out the rendezvous must not look cheap. */
export function lacks(body: Buffer, dialect: Dialect, role: Role): string | undefined {
  if (role === "aggregated") return undefined;
  if (dialect === "vllm") {
    const want = role === "prefill" ? "do_remote_decode" : "do_remote_prefill";
    if (!isTrue(body, want)) return `${role}: kv_transfer_params.${want} is missing`;
    if (role === "decode" && body[valueAt(body, "remote_engine_id")] !== QUOTE)
      return "decode: no engine id of a prefill";
    return undefined;
  }
  const room = body[valueAt(body, "bootstrap_room")] ?? 0;
  if (room < 0x30 || room > 0x39) return `${role}: bootstrap_room is missing`;
  return body[valueAt(body, "bootstrap_host")] === QUOTE ? undefined : `${role}: bootstrap_host is missing`;
}
