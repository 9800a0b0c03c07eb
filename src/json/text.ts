/** A string as a JSON string literal, quotes included. */
export function jsonString(value: string): string {
  return JSON.stringify(value);
}
