import type { AnswerHead } from "../../legs/exchange.ts";
import { type AnswerBody, cutBody, part } from "./answer-body.ts";
import { ChunkedBody } from "./chunked-body.ts";

/** The body that follows `head`. The parser has refused heads that say two things at once. */
export function bodyAfter({ status, headers }: AnswerHead): AnswerBody {
  if (status < 200 || status === 204 || status === 304) return new SizedBody(0);
  const coding = headers.get("transfer-encoding");
  if (coding !== null) return isChunked(coding) ? new ChunkedBody() : new OpenBody();
  const length = headers.get("content-length");
  return length === null ? new OpenBody() : new SizedBody(Number(length));
}

function isChunked(coding: string): boolean {
  return coding === "chunked" || /(?:^|,)[ \t]*chunked[ \t]*$/i.test(coding);
}

/** A body whose head has told its length, in bytes. */
class SizedBody implements AnswerBody {
  #left: number;
  overrun = false;
  readonly error = undefined;

  constructor(length: number) {
    this.#left = length;
  }

  get complete(): boolean {
    return this.#left === 0;
  }

  push(bytes: Uint8Array, at: number): Uint8Array | undefined {
    const end = Math.min(bytes.length, at + this.#left);
    this.#left -= end - at;
    if (end < bytes.length) this.overrun = true;
    return end === at ? undefined : part(bytes, at, end);
  }

  end(): Error | undefined {
    return this.complete ? undefined : cutBody();
  }
}

/** A body that ends with its connection. */
class OpenBody implements AnswerBody {
  complete = false;
  readonly overrun = false;
  readonly error = undefined;

  push(bytes: Uint8Array, at: number): Uint8Array | undefined {
    return at === bytes.length ? undefined : part(bytes, at, bytes.length);
  }

  end(): undefined {
    this.complete = true;
  }
}
