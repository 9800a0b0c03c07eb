/** RFC 3339 times in UTC with milliseconds. The part down to the second is kept, since most lines of a busy router share it. */
export class Timestamps {
  #second = Number.NaN;
  #prefix = "";

  /** `wall`: milliseconds since 1970. */
  format(wall: number): string {
    const second = Math.floor(wall / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#prefix = new Date(second * 1000).toISOString().slice(0, 20);
    }
    const rest = Math.floor(wall - second * 1000);
    return `${this.#prefix}${rest < 10 ? "00" : rest < 100 ? "0" : ""}${rest}Z`;
  }
}
