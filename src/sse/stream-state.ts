/** What has to be remembered between the events of one stream. One per decode leg. */
export class StreamState {
  /** An event that answers was seen. */
  answered = false;
  /** Every open choice is finished. */
  finished = false;
  /** The end mark was seen. */
  ended = false;
  /** `id` and `created` of the first chunk that has them. */
  id: string | undefined;
  created: number | undefined;
  readonly #seen = new Set<number>();
  readonly #closed = new Set<number>();
  readonly #expected: number;

  /** `expected`: how many choices (or batch items) the request asked for. */
  constructor(expected = 1) {
    this.#expected = expected;
  }

  /** Choices that are expected or were seen, and are not finished. */
  get open(): number {
    return Math.max(this.#expected, this.#seen.size) - this.#closed.size;
  }

  see(index: number): void {
    this.#seen.add(index);
  }

  /** Closes one choice; true when that was the last open one, and only then. */
  close(index: number): boolean {
    this.#seen.add(index);
    this.#closed.add(index);
    if (this.finished || this.open > 0) return false;
    this.finished = true;
    return true;
  }
}
