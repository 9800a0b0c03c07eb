/** A TCP connection, as much of it as an exchange of HTTP needs. */
export interface TcpSocket {
  /** How many bytes it has taken; the rest has to be offered again when it is `writable`. Negative: it is closed. */
  write(bytes: string | Uint8Array): number;
  /** It has taken more than it could send yet. Absent where it never takes more. */
  holding?(): boolean;
  pause(): void;
  resume(): void;
  /** Whether it keeps the process alive. */
  ref(): void;
  unref(): void;
  /** After so many seconds without anything `idle` is called; 0 = never. */
  timeout(seconds: number): void;
  /** Lets the kernel ask, after so many milliseconds of silence, whether the other side is there. */
  setKeepAlive(enable: boolean, ms: number): unknown;
  /** Closes it. */
  end(): void;
  /** Closes it with whatever waits to be sent. */
  terminate(): void;
}

/** Who is told what happens on a connection. Never within the call that has opened it. */
export interface TcpPeer {
  opened(socket: TcpSocket): void;
  /** The bytes are the peer's own. */
  received(bytes: Uint8Array): void;
  writable(): void;
  /** The other side will send nothing more. */
  finished(): void;
  /** It is gone, or could not be opened. */
  gone(error: unknown): void;
  idle(): void;
  /** One of these calls has thrown. */
  threw(error: unknown): void;
}

/** How a runtime opens connections. */
export interface Dialer {
  /** What `write` has taken it needs no longer: the memory may be used again at once. */
  readonly copies: boolean;
  /** Gives what takes the connect back, where that is possible. */
  dial(hostname: string, port: number, peer: TcpPeer): (() => void) | undefined;
}
