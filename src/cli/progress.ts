/** How many of several things are done, in one line of a terminal that is written over; nothing where there is no terminal. */
export class Progress {
  readonly #write: ((text: string) => void) | undefined;
  readonly #what: string;
  #started = 0;
  #done = 0;

  /** `write` puts a text in place of the last one; absent where nobody would see it. */
  constructor(write: ((text: string) => void) | undefined, what: string) {
    this.#write = write;
    this.#what = what;
  }

  watch<T>(work: Promise<T>): Promise<T> {
    this.#started++;
    this.#show();
    return work.finally(() => {
      this.#done++;
      this.#show();
    });
  }

  /** Takes the line away. */
  end(): void {
    if (this.#started > 0) this.#write?.("");
  }

  #show(): void {
    this.#write?.(`${this.#what}: ${this.#done} of ${this.#started}`);
  }
}
