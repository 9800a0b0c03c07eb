const LETTER_C = 99;
const LETTER_D = 100;
const LETTER_F = 102;
const LETTER_I = 105;
const COLON = 58;
const SPACE = 32;

// Every streamed event passes through one of these. A native search of one or two characters over a 220-byte event takes 11–14 ns, a longer
// one 21 ns, one regular expression with all the marks 270 ns (bench/sse.ts): so each mark is looked for by its rarest pair of letters first.
// What stands inside a JSON string cannot look like a key or a mark with its quotes, since its own quotes are escaped; where it does look
// like one, that costs a parse and nothing else.

/** chat/completions, completions, /generate: `finish_reason`, errors, `[DONE]`, comments. */
export function suspiciousChoices(latin1: string): boolean {
  // One line `data:{…}` and its blank line has no room for a comment, an `event` field or a bare `[DONE]`.
  if (!isOneObject(latin1) && suspiciousLines(latin1)) return true;
  return hasValue(latin1, 'finish_reason"') || suspiciousJson(latin1);
}

/** responses: the final events by name, errors, `[DONE]`, comments. */
export function suspiciousResponses(latin1: string): boolean {
  if (suspiciousLines(latin1) || suspiciousJson(latin1)) return true;
  for (let at = latin1.indexOf("response."); at >= 0; at = latin1.indexOf("response.", at + 9)) {
    const letter = latin1.charCodeAt(at + 9);
    // Most events are `response.output_…`; only these letters begin `completed`, `cancelled`, `incomplete` and `failed`.
    if (letter !== LETTER_C && letter !== LETTER_I && letter !== LETTER_F) continue;
    if (latin1.startsWith("ompleted", at + 10) || latin1.startsWith("ncomplete", at + 10)) return true;
    if (latin1.startsWith("ailed", at + 10) || latin1.startsWith("ancelled", at + 10)) return true;
  }
  // `response.output_item.done` has a status too; a response's own status fails under other names only on engines that make up their own.
  return false;
}

/** messages: `message_delta`, `message_stop`, errors, `[DONE]`, comments. */
export function suspiciousMessages(latin1: string): boolean {
  if (suspiciousLines(latin1) || suspiciousJson(latin1)) return true;
  for (let at = latin1.indexOf("message_"); at >= 0; at = latin1.indexOf("message_", at + 8)) {
    if (latin1.charCodeAt(at + 8) === LETTER_D || latin1.startsWith("stop", at + 8)) return true;
  }
  return false;
}

/** Usage that is there (not null): what a search for the usage event needs. Same promise as `suspicious`: never false for one. */
export function mentionsUsage(latin1: string): boolean {
  return hasValue(latin1, 'usage"') || hasEscapedLetter(latin1);
}

/** Exactly one line beginning `data:{` or `data: {`, ended by LF, then the blank line. */
function isOneObject(latin1: string): boolean {
  return (
    latin1.indexOf("\n") === latin1.length - 2 &&
    (latin1.startsWith("data: {") || latin1.startsWith("data:{")) &&
    !latin1.includes("\r")
  );
}

/** Marks of the event grammar: a comment line, the end mark, an `event` field that names an error (`error` is found by `suspiciousJson` too). */
function suspiciousLines(latin1: string): boolean {
  const first = latin1.charCodeAt(0);
  // A byte order mark hides what the first line is.
  if (first === COLON || first === 0xef) return true;
  if (latin1.includes("\n:") || latin1.includes("\r:")) return true;
  if (latin1.includes("[D") && latin1.includes("[DONE]")) return true;
  return latin1.includes("rr") && (latin1.includes("event: error") || latin1.includes("event:error"));
}

/** An error in JSON: the string "error" as key or value, or beginning "error:"; the key "detail"; or any of them written with escapes. */
function suspiciousJson(latin1: string): boolean {
  if (latin1.includes("rr") && (hasValue(latin1, '"error"') || latin1.includes('"error:'))) return true;
  if (latin1.includes("il") && latin1.includes('"detail"')) return true;
  return hasEscapedLetter(latin1);
}

/** `\u0020` to `\u007f`: an ASCII character that need not be escaped. Printers that do it may spell a key so. Umlauts (`\u00e4`) are no sign. */
function hasEscapedLetter(latin1: string): boolean {
  return latin1.includes("\\") && latin1.includes("\\u00") && /\\u00[2-7]/.test(latin1);
}

/** Does the key (its closing quote included) occur with anything but `: null` after it? White space in unusual places counts as anything. */
function hasValue(latin1: string, key: string): boolean {
  for (let at = latin1.indexOf(key); at >= 0; at = latin1.indexOf(key, at)) {
    at += key.length;
    if (latin1.charCodeAt(at) !== COLON) return true;
    const value = latin1.charCodeAt(at + 1) === SPACE ? at + 2 : at + 1;
    if (!latin1.startsWith("null", value)) return true;
  }
  return false;
}
