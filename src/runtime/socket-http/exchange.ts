import type { AnswerHead, Exchange, HeadListener } from "../../legs/exchange.ts";
import { StreamBody } from "../../legs/stream-body.ts";
import type { Unpack } from "../unpack.ts";

/** What carries a request and its answer, and pushes what comes. */
export interface Carrier {
  /** Lets the engine wait. */
  pause(): void;
  resume(): void;
  /** Nothing more is wanted of this exchange. */
  abandon(): void;
}

/** Bytes that wait for their reader before the engine is stopped, and what each piece of them costs besides. */
const HIGH_WATER = 65_536;
const PIECE_BYTES = 128;

/** Of a compressed body, at a time: what comes of it is a thousand times as much with gzip, and a million times with the others. */
const PACKED_PIECE = 4_096;
const DENSELY_PACKED_PIECE = 16;

const utf8 = new TextDecoder();

/** One request and its answer on a connection that pushes what comes; whoever reads asks for it when it can be used. */
export class PushedExchange implements Exchange {
  readonly #listener: HeadListener;
  readonly #unpack: Unpack;
  /** While the answer is under way. */
  #carrier: Carrier | undefined;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #take: ((chunk: Uint8Array | undefined) => void) | undefined;
  #fail: ((error: unknown) => void) | undefined;
  #begun = false;
  #ended = false;
  #broken: { error: unknown } | undefined;
  /** The codings of an answer that came compressed although nobody asked, until its first bytes are read. */
  #packed: string | undefined;
  #unpacked: StreamBody | undefined;

  constructor(listener: HeadListener, unpack: Unpack) {
    this.#listener = listener;
    this.#unpack = unpack;
  }

  /** The carrier's call, as are those down to `break`: the request goes out on it. */
  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier;
  }

  begin(head: AnswerHead): void {
    this.#begun = true;
    this.#packed = head.headers.get("content-encoding") ?? undefined;
    this.#listener.head(head);
  }

  receive(bytes: Uint8Array): void {
    const take = this.#take;
    if (take !== undefined) {
      this.#take = undefined;
      take(bytes);
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length + PIECE_BYTES;
    if (this.#waitingBytes > HIGH_WATER) this.#carrier?.pause();
  }

  end(): void {
    this.#carrier = undefined;
    this.#ended = true;
    const take = this.#take;
    this.#take = undefined;
    take?.(undefined);
  }

  break(error: unknown): void {
    this.#carrier = undefined;
    this.#broken = { error };
    if (!this.#begun) {
      this.#listener.failed(error);
      return;
    }
    if (this.#take === undefined) return;
    this.#take = undefined;
    this.#fail!(error);
  }

  read(take: (chunk: Uint8Array | undefined) => void, fail: (error: unknown) => void): void {
    if (this.#unpacked !== undefined) this.#unpacked.read(take, fail);
    else if (this.#packed !== undefined) this.#readPacked(this.#packed, take, fail);
    else this.readWire(take, fail);
  }

  /** A body of no bytes at all is none, whatever its head says of codings. */
  #readPacked(packed: string, take: (chunk: Uint8Array | undefined) => void, fail: (error: unknown) => void): void {
    this.readWire((first) => {
      this.#packed = undefined;
      if (first === undefined) {
        take(undefined);
        return;
      }
      try {
        const stream = this.#unpack(streamOf(this, pieceOf(packed), first as Uint8Array<ArrayBuffer>), packed);
        if (stream !== undefined) this.#unpacked = new StreamBody(stream);
      } catch (error) {
        this.close();
        fail(error);
        return;
      }
      if (this.#unpacked === undefined) take(first);
      else this.#unpacked.read(take, fail);
    }, fail);
  }

  /** As it is on the wire. */
  readWire(take: (chunk: Uint8Array | undefined) => void, fail: (error: unknown) => void): void {
    if (this.#waiting.length > 0 || this.#ended || this.#broken !== undefined) {
      this.#giveSoon(take, fail);
      return;
    }
    this.#take = take;
    this.#fail = fail;
  }

  /** What is there already; in a function of its own as `Leg` has one (the other is called for each event). */
  #giveSoon(take: (chunk: Uint8Array | undefined) => void, fail: (error: unknown) => void): void {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#waitingBytes -= next.length + PIECE_BYTES;
      if (this.#waitingBytes === 0) this.#carrier?.resume();
      queueMicrotask(() => take(next));
    } else if (this.#ended) {
      queueMicrotask(take);
    } else {
      const { error } = this.#broken!;
      queueMicrotask(() => fail(error));
    }
  }

  text(): string | Promise<string> {
    if (this.#ended && this.#waiting.length <= 1 && this.#packed === undefined && this.#unpacked === undefined) {
      const only = this.#waiting.pop();
      return only === undefined ? "" : utf8.decode(only);
    }
    return new Promise((resolve, reject) => {
      const parts: Uint8Array[] = [];
      const take = (chunk: Uint8Array | undefined): void => {
        if (chunk === undefined) {
          resolve(utf8.decode(Buffer.concat(parts)));
          return;
        }
        parts.push(chunk);
        this.read(take, reject);
      };
      this.read(take, reject);
    });
  }

  close(): void {
    this.#unpacked?.cancel();
    // What is there already may still be read, but not unpacked.
    if ((this.#ended && this.#packed === undefined) || this.#broken !== undefined) return;
    this.#ended = false;
    this.#waiting = [];
    this.#broken = { error: new Error("Closed from here") };
    this.#carrier?.abandon();
    this.#carrier = undefined;
    // Whoever closes does not hear of it before that has returned.
    queueMicrotask(() => this.break(this.#broken!.error));
  }
}

function pieceOf(encodings: string): number {
  return /^\s*(?:x-)?(?:gzip|deflate)\s*$/i.test(encodings) ? PACKED_PIECE : DENSELY_PACKED_PIECE;
}

/** The body on the wire as a stream, in pieces so small that each of them may be unpacked at once. */
function streamOf(
  exchange: PushedExchange,
  piece: number,
  first: Uint8Array<ArrayBuffer>,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let rest = first;
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        if (rest.length === 0) {
          const chunk = await new Promise<Uint8Array | undefined>((resolve, reject) => {
            exchange.readWire(resolve, reject);
          });
          if (chunk === undefined) {
            controller.close();
            return;
          }
          rest = chunk as Uint8Array<ArrayBuffer>;
        }
        // What became of the piece before is let go of between turns of the event loop only.
        await new Promise(setImmediate);
        controller.enqueue(rest.subarray(0, piece));
        rest = rest.subarray(piece);
      },
      cancel: () => exchange.close(),
    },
    { highWaterMark: 0 },
  );
}
