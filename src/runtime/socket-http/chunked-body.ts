import { type AnswerBody, cutBody, part } from "./answer-body.ts";

/** Of a size line, and of all trailers: they must not go on for ever. */
const EXTRAS_BYTES = 65_536;

/** What is expected next. */
const SIZE = 0;
const SIZE_OR_END = 1;
const EXTENSION = 2;
const SIZE_LF = 3;
const DATA = 4;
const DATA_CR = 5;
const DATA_LF = 6;
const TRAILER = 7;
const TRAILER_NAME = 8;
const TRAILER_VALUE = 9;
const TRAILER_LF = 10;
const LAST_LF = 11;
const COMPLETE = 12;
const BROKEN = 13;

const LF = 0x0a;
const CR = 0x0d;
const TAB = 0x09;
const COLON = 0x3a;
const SEMICOLON = 0x3b;

/** A character of a header's name (RFC 9110 section 5.6.2). */
const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/;

/**
 * A body in chunks (RFC 9112 section 7.1), strictly: what a lenient reader might take for an end is an error. The runtime's parser could
 * read them too; it calls back for each chunk, with a copy, at a cost of all that the router does with an event otherwise.
 */
export class ChunkedBody implements AnswerBody {
  #expected = SIZE;
  /** Of the present chunk, in bytes: what its size line has told so far, then what is still to come. */
  #left = 0;
  #extras = 0;
  overrun = false;
  error: Error | undefined;

  get complete(): boolean {
    return this.#expected === COMPLETE;
  }

  /** The chunks within `bytes` are moved together there: a reader wants one piece, and most often it is one already. */
  push(bytes: Uint8Array, at: number): Uint8Array | undefined {
    const { length } = bytes;
    let start = -1;
    let end = 0;
    while (at < length) {
      if (this.#expected === DATA) {
        const until = Math.min(length, at + this.#left);
        if (start < 0) {
          start = at;
          end = until;
        } else {
          bytes.copyWithin(end, at, until);
          end += until - at;
        }
        this.#left -= until - at;
        if (this.#left === 0) this.#expected = DATA_CR;
        at = until;
        continue;
      }
      if (this.#expected >= COMPLETE) {
        this.overrun = this.complete;
        break;
      }
      this.#frame(bytes[at]!);
      at++;
    }
    return start < 0 ? undefined : part(bytes, start, end);
  }

  end(): Error | undefined {
    return this.complete ? undefined : (this.error ?? cutBody());
  }

  /** One byte that is not data. */
  #frame(byte: number): void {
    switch (this.#expected) {
      case SIZE:
      case SIZE_OR_END: {
        const digit = hexDigit(byte);
        if (digit >= 0) {
          this.#left = this.#left * 16 + digit;
          const tooLarge = this.#left > Number.MAX_SAFE_INTEGER || ++this.#extras > EXTRAS_BYTES;
          this.#expected = tooLarge ? this.#broken("HPE_INVALID_CHUNK_SIZE") : SIZE_OR_END;
        } else if (this.#expected === SIZE) this.#expected = this.#broken("HPE_INVALID_CHUNK_SIZE");
        else if (byte === CR) this.#expected = SIZE_LF;
        else if (byte === SEMICOLON) this.#expected = EXTENSION;
        else this.#expected = this.#broken("HPE_INVALID_CHUNK_SIZE");
        return;
      }
      case EXTENSION:
        if (byte === CR) this.#expected = SIZE_LF;
        else this.#expected = this.#extra(byte, EXTENSION);
        return;
      case SIZE_LF:
        if (byte !== LF) this.#expected = this.#broken("HPE_LF_EXPECTED");
        else this.#expected = this.#left === 0 ? TRAILER : DATA;
        this.#extras = 0;
        return;
      case DATA_CR:
        this.#expected = byte === CR ? DATA_LF : this.#broken("HPE_STRICT");
        return;
      case DATA_LF:
        this.#expected = byte === LF ? SIZE : this.#broken("HPE_LF_EXPECTED");
        return;
      case TRAILER:
        this.#expected = byte === CR ? LAST_LF : this.#trailerName(byte);
        return;
      case TRAILER_NAME:
        this.#expected = byte === COLON ? TRAILER_VALUE : this.#trailerName(byte);
        return;
      case TRAILER_VALUE:
        this.#expected = byte === CR ? TRAILER_LF : this.#extra(byte, TRAILER_VALUE);
        return;
      case TRAILER_LF:
        this.#expected = byte === LF ? TRAILER : this.#broken("HPE_LF_EXPECTED");
        return;
      case LAST_LF:
        this.#expected = byte === LF ? COMPLETE : this.#broken("HPE_LF_EXPECTED");
        return;
    }
  }

  #trailerName(byte: number): number {
    return TOKEN.test(String.fromCharCode(byte))
      ? this.#extra(byte, TRAILER_NAME)
      : this.#broken("HPE_INVALID_HEADER_TOKEN");
  }

  /** A byte of what is nobody's. */
  #extra(byte: number, goesOn: number): number {
    if (byte === LF) return this.#broken("HPE_CR_EXPECTED");
    if ((byte < 0x20 && byte !== TAB) || byte === 0x7f) return this.#broken("HPE_INVALID_HEADER_TOKEN");
    return ++this.#extras > EXTRAS_BYTES ? this.#broken("HPE_CHUNK_EXTENSIONS_OVERFLOW") : goesOn;
  }

  /** By llhttp's names for what is wrong. */
  #broken(code: string): number {
    this.error = Object.assign(new Error("The engine's chunks are not chunks"), { code });
    return BROKEN;
  }
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
