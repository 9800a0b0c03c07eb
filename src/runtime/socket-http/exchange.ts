import type { AnswerHead, BodyReader, Exchange, HeadListener } from "../../legs/exchange.ts";
import { StreamBody } from "../../legs/stream-body.ts";
import { pieceOf, type Unpack } from "../unpack.ts";

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

const utf8 = new TextDecoder();

/** One request and its answer on a connection that pushes what comes; whoever reads asks for it when it can be used. */
export class PushedExchange implements Exchange {
  /** Who waits for the next bytes. */
  #reader: BodyReader | undefined;
  /** The codings of an answer that came compressed although nobody asked, until its first bytes are read. */
  #packed: string | undefined;
  #unpacked: StreamBody | undefined;
  #waitingBytes = 0;
  #ended = false;
  #broken: { error: unknown } | undefined;
  #waiting: Uint8Array[] = [];
  readonly #listener: HeadListener;
  readonly #unpack: Unpack;
  /** While the answer is under way. */
  #carrier: Carrier | undefined;
  #begun = false;

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
    const reader = this.#reader;
    if (reader !== undefined) {
      this.#reader = undefined;
      reader.chunk(bytes);
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length + PIECE_BYTES;
    if (this.#waitingBytes > HIGH_WATER) this.#carrier?.pause();
  }

  end(): void {
    this.#carrier = undefined;
    this.#ended = true;
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.chunk(undefined);
  }

  break(error: unknown): void {
    this.#carrier = undefined;
    this.#broken = { error };
    if (!this.#begun) {
      this.#listener.failed(error);
      return;
    }
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.cut(error);
  }

  read(reader: BodyReader): void {
    if (this.#unpacked !== undefined) this.#unpacked.read(reader);
    else if (this.#packed !== undefined) this.#readPacked(this.#packed, reader);
    else this.readWire(reader);
  }

  /** A body of no bytes at all is none, whatever its head says of codings. */
  #readPacked(packed: string, reader: BodyReader): void {
    this.readWire({
      chunk: (first) => {
        this.#packed = undefined;
        if (first === undefined) {
          reader.chunk(undefined);
          return;
        }
        try {
          const stream = this.#unpack(streamOf(this, pieceOf(packed), first as Uint8Array<ArrayBuffer>), packed);
          if (stream !== undefined) this.#unpacked = new StreamBody(stream);
        } catch (error) {
          this.close();
          reader.cut(error);
          return;
        }
        if (this.#unpacked === undefined) reader.chunk(first);
        else this.#unpacked.read(reader);
      },
      cut: (error) => reader.cut(error),
    });
  }

  /** As it is on the wire. */
  readWire(reader: BodyReader): void {
    if (this.#waitingBytes > 0 || this.#ended || this.#broken !== undefined) this.#giveSoon(reader);
    else this.#reader = reader;
  }

  /** What is there already. Not in `readWire`: a function that holds others makes room for what they see each time it is called. */
  #giveSoon(reader: BodyReader): void {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#waitingBytes -= next.length + PIECE_BYTES;
      if (this.#waitingBytes === 0) this.#carrier?.resume();
      queueMicrotask(() => reader.chunk(next));
    } else if (this.#ended) {
      queueMicrotask(() => reader.chunk(undefined));
    } else {
      const { error } = this.#broken!;
      queueMicrotask(() => reader.cut(error));
    }
  }

  text(): string | Promise<string> {
    if (this.#ended && this.#waiting.length <= 1 && this.#packed === undefined && this.#unpacked === undefined) {
      const only = this.#waiting.pop();
      return only === undefined ? "" : utf8.decode(only);
    }
    return new Promise((resolve, reject) => {
      const parts: Uint8Array[] = [];
      const whole: BodyReader = {
        chunk: (bytes) => {
          if (bytes === undefined) {
            resolve(utf8.decode(Buffer.concat(parts)));
            return;
          }
          parts.push(bytes);
          this.read(whole);
        },
        cut: reject,
      };
      this.read(whole);
    });
  }

  close(): void {
    this.#unpacked?.cancel();
    // What is there already may still be read, but not unpacked.
    if ((this.#ended && this.#packed === undefined) || this.#broken !== undefined) return;
    this.#ended = false;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#broken = { error: new Error("Closed from here") };
    this.#carrier?.abandon();
    this.#carrier = undefined;
    // Whoever closes does not hear of it before that has returned.
    queueMicrotask(() => this.break(this.#broken!.error));
  }
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
            exchange.readWire({ chunk: resolve, cut: reject });
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
