import { holdsError, holdsEscapedLetter, holdsValue } from "./json-marks.ts";

const COLON = 58;
const BYTE_ORDER_MARK = 0xef;
const LETTER_C = 99;
const LETTER_D = 100;
const LETTER_F = 102;
const LETTER_I = 105;

// Every streamed event passes through one of these. A native search of one or two characters over a 220-byte event takes 11–14 ns, a longer
// one 21 ns, one regular expression with all the marks 270 ns (bench/sse.ts): so most marks are looked for by their rarest pair of letters.

/** chat/completions, completions, /generate: `finish_reason`, errors, `[DONE]`, comments. */
export function suspiciousChoices(latin1: string): boolean {
  // One line `data:{…}` and its blank line has no room for a comment, an `event` field or a bare `[DONE]`.
  if (!isOneObject(latin1) && suspiciousLines(latin1)) return true;
  return holdsValue(latin1, 'finish_reason"') || holdsError(latin1) || holdsEscapedLetter(latin1);
}

/** responses: the final events by name, errors, `[DONE]`, comments. */
export function suspiciousResponses(latin1: string): boolean {
  if (suspiciousLines(latin1) || holdsError(latin1) || holdsEscapedLetter(latin1)) return true;
  for (let at = latin1.indexOf("response."); at >= 0; at = latin1.indexOf("response.", at + 9)) {
    // Most events are `response.output_…`; only these letters begin `completed`, `cancelled`, `incomplete` and `failed`.
    const letter = latin1.charCodeAt(at + 9);
    if (letter !== LETTER_C && letter !== LETTER_I && letter !== LETTER_F) continue;
    if (latin1.startsWith("ompleted", at + 10) || latin1.startsWith("ncomplete", at + 10)) return true;
    if (latin1.startsWith("ailed", at + 10) || latin1.startsWith("ancelled", at + 10)) return true;
  }
  return false;
}

/** messages: `message_delta`, `message_stop`, errors, `[DONE]`, comments. */
export function suspiciousMessages(latin1: string): boolean {
  if (suspiciousLines(latin1) || holdsError(latin1) || holdsEscapedLetter(latin1)) return true;
  for (let at = latin1.indexOf("message_"); at >= 0; at = latin1.indexOf("message_", at + 8)) {
    if (latin1.charCodeAt(at + 8) === LETTER_D || latin1.startsWith("stop", at + 8)) return true;
  }
  return false;
}

/** Exactly one line beginning `data:{` or `data: {`, ended by LF, then the blank line. */
function isOneObject(latin1: string): boolean {
  return (
    latin1.indexOf("\n") === latin1.length - 2 &&
    latin1.endsWith("\n") &&
    (latin1.startsWith("data: {") || latin1.startsWith("data:{")) &&
    !latin1.includes("\r")
  );
}

/** Marks of the event grammar: a comment line, the end mark, an `event` field that names an error. */
function suspiciousLines(latin1: string): boolean {
  const first = latin1.charCodeAt(0);
  // A byte order mark hides what the first line is.
  if (first === COLON || first === BYTE_ORDER_MARK) return true;
  if (latin1.includes("\n:") || latin1.includes("\r:")) return true;
  if (latin1.includes("[D") && latin1.includes("[DONE]")) return true;
  return latin1.includes("rr") && (latin1.includes("event: error") || latin1.includes("event:error"));
}
