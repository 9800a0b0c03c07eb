import type { RequestRecord } from "../telemetry/record.ts";

/** Workers come and go; this only keeps the names of those that have gone from piling up. */
const KEPT = 4_096;

type Way = Pick<RequestRecord, "path" | "pool" | "prefill" | "decode">;

interface Known {
  path: string;
  pool: string;
  headers: Headers;
}

/**
 * Headers of good answers: all that come from one worker have the same but for the request's id and the prefill worker, so they are made
 * once and copied. Made anew of a record they were one part in thirty of a short request.
 */
export class AnswerHeaders {
  readonly #fixed: Readonly<Record<string, string>>;
  readonly #known = new Map<string, Known>();

  /** `fixed` are those of every answer. */
  constructor(fixed: Readonly<Record<string, string>>) {
    this.#fixed = fixed;
  }

  /** Workers whose headers are kept. */
  get size(): number {
    return this.#known.size;
  }

  /** The caller's own: there are `Response`s that keep the headers they are given (@hono/node-server's). */
  of(record: RequestRecord): Headers {
    let known = this.#known.get(record.decode);
    if (known === undefined || known.path !== record.path || known.pool !== record.pool) known = this.#learn(record);
    const headers = new Headers(known.headers);
    headers.set("x-request-id", record.id);
    if (record.prefill !== "") headers.set("x-router-prefill", record.prefill);
    return headers;
  }

  #learn({ path, pool, decode }: RequestRecord): Known {
    const known = {
      path,
      pool,
      headers: new Headers(noteWay({ ...this.#fixed }, { path, pool, prefill: "", decode })),
    };
    if (this.#known.size >= KEPT) this.#known.clear();
    this.#known.set(decode, known);
    return known;
  }
}

/** Adds which way a request went, by names and never by addresses; nothing where no worker was chosen (contract section 7). */
export function noteWay(headers: Record<string, string>, record: Way): Record<string, string> {
  if (record.path !== "") headers["x-router-path"] = record.path;
  if (record.pool !== "") headers["x-router-pool"] = record.pool;
  if (record.prefill !== "") headers["x-router-prefill"] = record.prefill;
  if (record.decode !== "") headers["x-router-decode"] = record.decode;
  return headers;
}
