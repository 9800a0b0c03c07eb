import { scanValue } from "../json/scan.ts";

/**
 * An object or a list, from its first to its last character. One that ends with its connection, or that a proxy in front of the engine has
 * put into chunks, may be cut anywhere, and even there look like an object; one of known length may be nonsense all the same.
 */
export function isWholeJson(text: string): boolean {
  if (!looksWhole(text)) return false;
  try {
    scanValue(text.trim());
    return true;
  } catch {
    return false;
  }
}

/** An object or a list from its first to its last character; engines may pad with blanks. */
function looksWhole(text: string): boolean {
  const body = text.trim();
  const first = body.charCodeAt(0);
  const last = body.charCodeAt(body.length - 1);
  return (first === 123 && last === 125) || (first === 91 && last === 93);
}
