import type { SendRequest } from "../../legs/transport.ts";
import type { Target } from "./origin.ts";

/** A request as it goes out: text where its UTF-8 is what goes on the wire, so that the socket takes it without a copy of the prompt. */
export interface RequestText {
  text: string | Buffer;
  bytes: number;
}

/** What is left of a request when so many of its bytes have gone out. */
export function restOf({ text, bytes }: RequestText, taken: number): RequestText {
  const left = bytes - taken;
  // ASCII, as many bytes as characters: still no copy.
  if (typeof text === "string" && text.length === bytes) return { text: text.slice(taken), bytes: left };
  return { text: (typeof text === "string" ? Buffer.from(text) : text).subarray(taken), bytes: left };
}

/** What would end a header, or is no byte: what the web's own `Headers` forbids (RFC 9110 section 5.5 lets a recipient keep the rest). */
const FORBIDDEN = /[\0\r\n]|[^\0-\xff]/;
const BEYOND_ASCII = /[\x80-\xff]/;

/** The whole request. Throws a TypeError for a header that cannot be sent. */
export function requestText(target: Target, { headers, body, fresh }: SendRequest): RequestText {
  let head = `POST ${target.path} HTTP/1.1\r\nhost: ${target.host}\r\nconnection: ${fresh ? "close" : "keep-alive"}\r\n`;
  for (const name in headers) {
    const value = headers[name]!;
    if (FORBIDDEN.test(value)) throw new TypeError(`The header ${name} has characters that no header can have`);
    head += `${name}: ${value}\r\n`;
  }
  const length = Buffer.byteLength(body);
  head += `content-length: ${length}\r\n\r\n`;
  // Values are bytes (latin1), the body is UTF-8.
  const text = BEYOND_ASCII.test(head) ? Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)]) : head + body;
  return { text, bytes: head.length + length };
}
