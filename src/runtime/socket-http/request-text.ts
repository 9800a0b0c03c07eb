import type { SendRequest } from "../../legs/transport.ts";
import type { Target } from "./origin.ts";
import { WriteRoom } from "./write-room.ts";

/** A request as it goes out: text where its UTF-8 is what goes on the wire. */
export interface RequestText {
  text: string | Buffer;
  bytes: number;
  /** Its bytes are there for this moment only. */
  fleeting?: boolean;
}

/** What is left of a request when so many of its bytes have gone out. */
export function restOf({ text, bytes, fleeting }: RequestText, taken: number): RequestText {
  const left = bytes - taken;
  // ASCII, as many bytes as characters: still no copy.
  if (typeof text === "string" && text.length === bytes) return { text: text.slice(taken), bytes: left };
  const rest = (typeof text === "string" ? Buffer.from(text) : text).subarray(taken);
  return { text: fleeting === true ? Buffer.from(rest) : rest, bytes: left };
}

/** What would end a header, or is no byte: what the web's own `Headers` forbids (RFC 9110 section 5.5 lets a recipient keep the rest). */
const FORBIDDEN = /[\0\r\n]|[^\0-\xff]/;
const BEYOND_ASCII = /[\x80-\xff]/;

const room = new WriteRoom();

/** The whole request. Throws a TypeError for a header that cannot be sent. `atOnce`: it is written before anything else happens. */
export function requestText(target: Target, request: SendRequest, atOnce: boolean): RequestText {
  if (atOnce && WriteRoom.fits(request.body)) {
    const text = room.with(headText(target, request, room.put(request.body)));
    if (text !== undefined) return { text, bytes: text.length, fleeting: true };
  }
  const body = request.body.toString();
  const length = Buffer.byteLength(body);
  const head = headText(target, request, length);
  // Values are bytes (latin1), the body is UTF-8.
  const text = BEYOND_ASCII.test(head) ? Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)]) : head + body;
  return { text, bytes: head.length + length };
}

function headText(target: Target, { headers, shared, fresh }: SendRequest, length: number): string {
  let head = fresh ? target.startClosing : target.start;
  if (shared !== undefined) head += shared.linesBeside(headers);
  for (const name in headers) {
    const value = headers[name]!;
    if (FORBIDDEN.test(value)) throw new TypeError(`The header ${name} has characters that no header can have`);
    head += `${name}: ${value}\r\n`;
  }
  return `${head}content-length: ${length}\r\n\r\n`;
}
