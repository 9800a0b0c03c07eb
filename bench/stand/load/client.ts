import type { Socket } from "bun";
import { wallMs } from "../clock.ts";
import { type Kind, markOf } from "../protocol.ts";
import { type PreparedRequest, prepareRequest } from "./prompt.ts";
import { ResponseReader, type ResponseSink } from "./response.ts";
import type { Tally } from "./tally.ts";

const EVENT_END = "\n\n";
const LF = 0x0a;
const DONE = "[DONE]\n\n";
const RETRY_MS = 5;
/** How long after its request a client of kind "h" leaves, whether or not a token has come. */
const LEAVE_AFTER_MS = { least: 100, most: 300 };

/** One closed-loop client: a connection, one request after the other. */
export class Client implements ResponseSink {
  readonly kind: Kind;
  readonly #tally: Tally;
  readonly #request: PreparedRequest;
  readonly #finished: () => void;
  #reader = new ResponseReader(this);
  #socket: Socket<Client> | undefined;
  #unsent: Buffer | undefined;
  #number = 0;
  #busy = false;
  #start = 0;
  #code = 0;
  #events = 0;
  #payloadBytes = 0;
  #endsWithLine = false;
  #tail = "";
  #framed = false;

  constructor(tally: Tally, id: number, kind: Kind, finished: () => void) {
    this.#tally = tally;
    this.kind = kind;
    this.#request = prepareRequest(tally.plan, id);
    this.#finished = finished;
  }

  run(): void {
    const { plan } = this.#tally;
    if (this.#tally.over) {
      this.#drop();
      this.#finished();
      return;
    }
    if (this.kind === "p" || this.kind === "i") this.#tally.issued++;
    this.#busy = true;
    this.#start = performance.now();
    if (this.#socket !== undefined) {
      this.#send();
      return;
    }
    this.#tally.dials++;
    Bun.connect<Client>({ hostname: plan.host, port: plan.port, data: this, socket: HANDLERS }).catch(() => {
      this.#failed("connection refused");
    });
  }

  opened(socket: Socket<Client>): void {
    socket.setNoDelay(true);
    this.#socket = socket;
    this.#send();
  }

  #send(): void {
    this.#number = ++this.#tally.numbered;
    this.#code = 0;
    this.#events = 0;
    this.#payloadBytes = 0;
    this.#tail = "";
    this.#endsWithLine = false;
    this.#framed = false;
    const { bytes, markAt } = this.#request;
    bytes.write(markOf(this.kind, this.#number), markAt, "latin1");
    this.#write(bytes);
    if (this.kind === "h") this.#leaveLater();
  }

  #leaveLater(): void {
    const { least, most } = LEAVE_AFTER_MS;
    const number = this.#number;
    setTimeout(
      () => {
        if (this.#number === number) this.#hangUp();
      },
      least + Math.random() * (most - least),
    );
  }

  #write(bytes: Buffer): void {
    const sent = Math.max(0, this.#socket?.write(bytes) ?? 0);
    this.#unsent = sent < bytes.length ? bytes.subarray(sent) : undefined;
  }

  drain(socket: Socket<Client>): void {
    if (socket === this.#socket && this.#unsent !== undefined) this.#write(this.#unsent);
  }

  data(socket: Socket<Client>, bytes: Buffer): void {
    // A connection that was hung up may still bring bytes while the next one is in use.
    if (this.#busy && socket === this.#socket) this.#reader.take(bytes);
  }

  status(code: number): void {
    this.#code = code;
    if (!this.#tally.plan.stream) this.#first();
  }

  #first(): void {
    if (this.kind === "p") this.#tally.firstUs.push((performance.now() - this.#start) * 1000);
  }

  payload(bytes: Buffer, from: number, to: number): void {
    this.#payloadBytes += to - from;
    if (this.#code !== 200) {
      this.#tail = (this.#tail + bytes.toString("latin1", from, to)).slice(0, 80);
      return;
    }
    if (!this.#tally.plan.stream) return;
    const before = this.#events;
    let at = from;
    if (this.#endsWithLine && bytes[from] === LF) {
      this.#events++;
      at++;
    }
    for (let end = bytes.indexOf(EVENT_END, at); end >= 0 && end + 2 <= to; end = bytes.indexOf(EVENT_END, end + 2)) {
      this.#events++;
      at = end + 2;
    }
    this.#endsWithLine = at < to && bytes[to - 1] === LF;
    this.#tail =
      to - from >= DONE.length
        ? bytes.toString("latin1", to - DONE.length, to)
        : (this.#tail + bytes.toString("latin1", from, to)).slice(-DONE.length);
    if (before === 0 && this.#events > 0) this.#firstEvent();
    if (this.kind === "f" && !this.#framed) {
      const mark = bytes.indexOf('"error"', from);
      if (mark >= 0 && mark < to) {
        this.#framed = true;
        this.#tally.frames.push([this.#number, wallMs()]);
      }
    }
  }

  #firstEvent(): void {
    this.#first();
    if (this.kind === "i") this.#tally.openStreams++;
  }

  #hangUp(): void {
    if (!this.#busy) return;
    this.#busy = false;
    this.#tally.hangUps.push([this.#number, wallMs()]);
    // FIN, not RST: what a client sends that closes its connection, and the harder one for a router to notice.
    this.#drop("end");
    this.run();
  }

  whole(keep: boolean): void {
    this.#busy = false;
    const tally = this.#tally;
    const why = this.#wrong();
    tally.bytes += this.#payloadBytes;
    if (this.kind === "f" || this.kind === "h") {
      // A status says it as clearly as a frame does.
      if (this.kind === "f" && this.#code !== 200) tally.statuses.push([this.#number, wallMs()]);
      else if (!this.#framed) tally.end(why ?? "a whole answer");
    } else if (why !== undefined) {
      this.#failed(why);
      return;
    } else {
      tally.requests++;
      // The end mark is an event of the wire, and no event of the answer.
      if (tally.plan.stream) tally.events += this.#events - 1;
      tally.wholeUs.push((performance.now() - this.#start) * 1000);
    }
    if (!keep || tally.plan.close === true) this.#drop();
    this.run();
  }

  /** What is wrong with a response that has come to its end. */
  #wrong(): string | undefined {
    const { plan } = this.#tally;
    if (this.#code !== 200) return `status ${this.#code} ${this.#tail}`;
    if (!plan.stream) return this.#payloadBytes > 0 ? undefined : "an empty body";
    if (this.#tail !== DONE) return "a stream without [DONE]";
    const want = this.kind === "p" ? plan.wantEvents : 0;
    return want > 0 && this.#events - 1 !== want ? `a stream of ${this.#events - 1} events` : undefined;
  }

  #failed(why: string): void {
    this.#busy = false;
    this.#drop();
    if (this.kind === "f" || this.kind === "h") this.#tally.end(why);
    else this.#tally.fail(why);
    setTimeout(() => this.run(), RETRY_MS);
  }

  /** Called now and then: a request that takes too long is given up. */
  watch(now: number): void {
    if (this.#busy && now - this.#start > this.#tally.plan.timeoutMs) this.#failed("no end in time");
  }

  closed(socket: Socket<Client>): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    if (!this.#busy) {
      this.#reader = new ResponseReader(this);
      return;
    }
    if (this.#reader.closed()) return;
    this.#failed(this.#code === 0 ? "closed before an answer" : "closed within an answer");
  }

  #drop(how: "end" | "terminate" = "terminate"): void {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#unsent = undefined;
    this.#reader = new ResponseReader(this);
    socket?.[how]();
  }
}

const HANDLERS = {
  open: (socket: Socket<Client>) => socket.data.opened(socket),
  data: (socket: Socket<Client>, bytes: Buffer) => socket.data.data(socket, bytes),
  drain: (socket: Socket<Client>) => socket.data.drain(socket),
  close: (socket: Socket<Client>) => socket.data.closed(socket),
  error: () => {},
};
