/** Where a command's words go. Lines come without their newline. */
export interface Output {
  /** Results: stdout. */
  line(text: string): void;
  /** A piece of a line, as it comes; absent where only whole lines can be taken. */
  write?(text: string): void;
  /** Complaints: stderr. */
  error(text: string): void;
  /** A text that takes the place of the last one, for as long as something goes on; absent where there is no terminal. */
  status?: (text: string) => void;
  paint: Paint;
}

/** Marks text for a person's terminal; the text itself where nobody would see colours. */
export interface Paint {
  good(text: string): string;
  bad(text: string): string;
  warn(text: string): string;
  dim(text: string): string;
  bold(text: string): string;
}

const plain = (text: string): string => text;
const sgr =
  (code: number) =>
  (text: string): string =>
    `\u001b[${code}m${text}\u001b[0m`;

/** Colours only for a terminal that wants them (no-color.org). */
export function paintFor(terminal: boolean, env: Readonly<Record<string, string | undefined>>): Paint {
  const wanted = terminal && (env.NO_COLOR ?? "") === "" && env.TERM !== "dumb";
  if (!wanted) return { good: plain, bad: plain, warn: plain, dim: plain, bold: plain };
  return { good: sgr(32), bad: sgr(31), warn: sgr(33), dim: sgr(2), bold: sgr(1) };
}

/** The process's own streams. */
export function processOutput(): Output {
  const output: Output = {
    line: (text) => void process.stdout.write(`${text}\n`),
    write: (text) => void process.stdout.write(text),
    error: (text) => void process.stderr.write(`${text}\n`),
    paint: paintFor(process.stdout.isTTY === true, process.env),
  };
  // On stderr, so that results can be piped away while a person watches.
  if (process.stderr.isTTY === true && process.env.TERM !== "dumb") {
    output.status = (text) => void process.stderr.write(`\r\u001b[2K${text}`);
  }
  return output;
}
