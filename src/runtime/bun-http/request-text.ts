import type { SendRequest } from "../../legs/transport.ts";
import type { Target } from "./origin.ts";

/** A request as it goes out: text where its UTF-8 is what goes on the wire, so that the socket takes it without a copy of the prompt. */
export interface RequestText {
  text: string | Buffer;
  bytes: number;
}

/** What RFC 9110 section 5.5 lets into a value. Anything else could end the header, or cannot be sent as bytes. */
const FORBIDDEN = /[^\t\x20-\x7e\x80-\xff]/;
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
