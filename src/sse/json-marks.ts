const COLON = 58;
const SPACE = 32;

// Searches in JSON text without parsing it. What stands inside a JSON string cannot look like a key, since its own quotes are escaped; a whole
// string that is spelled like one costs a parse and nothing else. The promise is the other way round: what is there is never missed.

/** Does the key (its closing quote included) occur with anything but `: null` after it? White space in unusual places counts as anything. */
export function holdsValue(text: string, key: string): boolean {
  for (let at = text.indexOf(key); at >= 0; at = text.indexOf(key, at)) {
    at += key.length;
    if (text.charCodeAt(at) !== COLON) return true;
    const value = text.charCodeAt(at + 1) === SPACE ? at + 2 : at + 1;
    if (!text.startsWith("null", value)) return true;
  }
  return false;
}

/** The string "error" as key (not of null) or value, or one that begins "error:"; or the key "detail". */
export function holdsError(text: string): boolean {
  // A native search for two characters takes two thirds of the time of one for more, and most events have neither pair.
  if (text.includes("rr") && (holdsValue(text, '"error"') || text.includes('"error:'))) return true;
  return text.includes("il") && text.includes('"detail"');
}

/** `\u0020` to `\u007f`: ASCII characters need no escape, but a printer may spell a key with one. Umlauts (`\u00e4`) are no sign of that. */
export function holdsEscapedLetter(text: string): boolean {
  return text.includes("\\") && text.includes("\\u00") && /\\u00[2-7]/.test(text);
}

/** Usage that is there, not null (chat, completions, responses, messages). Never false for an event that has it. */
export function mentionsUsage(text: string): boolean {
  return holdsValue(text, 'usage"') || holdsEscapedLetter(text);
}
