/**
 * Why a text was refused: it is no JSON at all, it is JSON but no object, it nests deeper or has more members than the limits.
 * The relay answers 400 to each; no part of the text is repeated in the message.
 */
export type JsonErrorCode = "not_json" | "not_object" | "too_deep" | "too_many_members";

/** A text that the scanner refuses. `position` counts UTF-16 code units from the start of the text. */
export class JsonError extends Error {
  override readonly name = "JsonError";
  readonly code: JsonErrorCode;
  readonly position: number;

  constructor(code: JsonErrorCode, message: string, position: number) {
    super(`${message} at position ${position}`);
    this.code = code;
    this.position = position;
  }
}
