const COLON = 58;
const LF = 10;
const CR = 13;
const BYTE_ORDER_MARK = 0xfeff;

/**
 * Takes comment lines, blank lines and white space from the beginning of an answer, piece by piece: what an engine sends to keep a
 * connection alive while its answer is not ready. Hours of them must fill neither memory nor the bound on what is kept of the answer.
 */
export class Preamble {
  /** The answer itself has begun. */
  over = false;
  #inComment = false;

  /** What of the next piece belongs to the answer itself; "" while there is nothing yet. */
  strip(text: string): string {
    if (this.over) return text;
    for (let at = 0; at < text.length; at++) {
      const c = text.charCodeAt(at);
      if (c === LF || c === CR) this.#inComment = false;
      else if (this.#inComment || c <= 0x20 || c === BYTE_ORDER_MARK) continue;
      else if (c === COLON) this.#inComment = true;
      else {
        this.over = true;
        return at === 0 ? text : text.slice(at);
      }
    }
    return "";
  }
}
