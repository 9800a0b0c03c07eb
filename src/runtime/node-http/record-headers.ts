import type { AnswerHeaders } from "../../legs/exchange.ts";

/** Headers as undici's dispatcher gives them: by their names in lower case, a list where one came several times. */
export class RecordHeaders implements AnswerHeaders {
  readonly #record: Readonly<Record<string, string | string[] | undefined>>;

  constructor(record: Readonly<Record<string, string | string[] | undefined>>) {
    this.#record = record;
  }

  get(name: string): string | null {
    const value = Object.hasOwn(this.#record, name) ? this.#record[name] : undefined;
    if (value === undefined) return null;
    return typeof value === "string" ? value : value.join(", ");
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#record, name);
  }

  forEach(visit: (value: string, name: string) => void): void {
    for (const name of Object.keys(this.#record)) visit(this.get(name) ?? "", name);
  }
}
