import type { Socket } from "bun";
import { wallMs } from "../clock.ts";
import { FAIL_AFTER_MS, type Kind, OPEN_STREAM } from "../protocol.ts";
import type { Engine } from "./engine.ts";
import { PREFILL_FAILURE, type Replies, sideReply } from "./replies.ts";
import { type EngineRequest, lacks, markIn, RequestReader, wantsStream } from "./request.ts";

/** Events a stream at full speed writes before the others get their turn. */
const BURST = 1;
const CHAT = "/v1/chat/completions";

/** One connection of a router to an engine: one request after the other. */
export class Connection {
  readonly #engine: Engine;
  readonly #socket: Socket<Connection>;
  readonly #reader = new RequestReader();
  /** Bytes the socket did not take yet. */
  #unsent: Buffer | undefined;
  #replies: Replies | undefined;
  #left = 0;
  #itlMs = 0;
  #next = 0;
  #busy = false;
  #kind: Kind = "p";
  #number = 0;
  /** Counts requests, so that a deadline of an earlier one does nothing. */
  #turn = 0;

  constructor(engine: Engine, socket: Socket<Connection>) {
    this.#engine = engine;
    this.#socket = socket;
  }

  data(bytes: Buffer): void {
    const request = this.#reader.take(bytes);
    if (request === undefined) return;
    if (request.method === "POST" && request.path === CHAT) this.#answer(request);
    else {
      const { dialect, role, stats } = this.#engine;
      this.#write(sideReply(request.path.split("?", 1)[0] ?? "", dialect, role, stats.inFlight));
    }
  }

  #answer({ body }: EngineRequest): void {
    const { stats, dialect, role } = this.#engine;
    stats.requests++;
    const why = lacks(body, dialect, role);
    if (why !== undefined) {
      stats.rejected++;
      stats.lastError = why;
      this.#write(this.#engine.refusal(why));
      return;
    }
    this.#turn++;
    this.#busy = true;
    stats.inFlight++;
    if (stats.inFlight > stats.maxInFlight) stats.maxInFlight = stats.inFlight;
    const { kind, number } = markIn(body);
    this.#kind = kind;
    this.#number = number;
    this.#replies = this.#engine.replies;
    // Not the request that only releases a hand-off once the client has left: it is answered, and not closed.
    if (kind === "h" && (role === "prefill" || wantsStream(body))) this.#opened(number);
    if (role === "prefill") this.#prefill(kind, number);
    else if (wantsStream(body)) this.#stream(kind);
    else this.#whole();
  }

  #opened(number: number): void {
    const { journal, role, dialect } = this.#engine;
    if (role !== "prefill") journal.decodeOpened.push(number);
    else if (dialect === "sglang") journal.prefillOpened.push(number);
  }

  #prefill(kind: Kind, number: number): void {
    // Where prefill comes first there is no stream yet that a client could leave: only decode is left then.
    const whole = kind === "h" ? this.#engine.dialect === "vllm" : kind !== "f";
    if (whole) {
      this.#whole();
      return;
    }
    const { least, most } = FAIL_AFTER_MS;
    const wait = kind === "h" ? OPEN_STREAM.lastMs : least + ((number * 7919) % (most - least));
    this.#later(performance.now() + wait, () => {
      this.#write(PREFILL_FAILURE);
      if (kind === "f") this.#engine.journal.failed.push([number, wallMs()]);
      this.#over();
    });
  }

  #whole(): void {
    this.#write((this.#replies as Replies).whole);
    this.#over();
  }

  #stream(kind: Kind): void {
    const replies = this.#replies as Replies;
    this.#write(replies.opening);
    if (kind === "i") {
      this.#engine.idle.add(this);
      return;
    }
    this.#itlMs = kind === "p" ? this.#engine.itlMs : OPEN_STREAM.itlMs;
    this.#left = kind === "p" ? replies.tokens - 1 : OPEN_STREAM.lastMs / OPEN_STREAM.itlMs;
    if (this.#itlMs === 0) {
      this.pump();
      return;
    }
    this.#next = performance.now() + this.#itlMs;
    this.#later(this.#next, this.#tick);
  }

  /** Ends a stream that has been silent. */
  finish(): void {
    this.#close();
  }

  readonly #tick = (): void => {
    if (this.#left === 0) {
      this.#close();
      return;
    }
    this.#left--;
    this.#write((this.#replies as Replies).token);
    this.#next += this.#itlMs;
    this.#later(this.#next, this.#tick);
  };

  /** Some events of a stream at full speed; then it is the turn of others. */
  pump(): void {
    if (!this.#busy || this.#unsent !== undefined) return;
    const { token } = this.#replies as Replies;
    for (let burst = Math.min(BURST, this.#left); burst > 0; burst--) {
      this.#left--;
      this.#write(token);
      if (this.#unsent !== undefined) return;
    }
    if (this.#left === 0) this.#close();
    else this.#engine.pumpSoon(this);
  }

  #close(): void {
    this.#write((this.#replies as Replies).closing);
    this.#over();
  }

  #over(): void {
    this.#busy = false;
    this.#engine.stats.inFlight--;
  }

  #later(at: number, run: () => void): void {
    const turn = this.#turn;
    this.#engine.wheel.at(at, () => {
      if (this.#busy && this.#turn === turn) run();
    });
  }

  #write(bytes: Buffer): void {
    if (this.#unsent !== undefined) {
      this.#unsent = Buffer.concat([this.#unsent, bytes]);
      return;
    }
    const sent = this.#socket.write(bytes);
    if (sent < bytes.length) this.#unsent = bytes.subarray(Math.max(0, sent));
  }

  drain(): void {
    const bytes = this.#unsent;
    if (bytes === undefined) return;
    this.#unsent = undefined;
    this.#write(bytes);
    if (this.#unsent === undefined && this.#busy && this.#itlMs === 0 && this.#kind === "p") this.pump();
  }

  closed(): void {
    this.#engine.idle.delete(this);
    if (!this.#busy) return;
    this.#over();
    const { stats, journal, role } = this.#engine;
    stats.cancelled++;
    if (this.#kind === "h") {
      const closed = role === "prefill" ? journal.prefillClosed : journal.decodeClosed;
      closed.push([this.#number, wallMs()]);
    }
  }
}
