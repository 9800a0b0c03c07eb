import { ref, type Schema } from "./schema.ts";

export interface Parameter {
  name: string;
  in: "path" | "header" | "query";
  required?: boolean;
  description: string;
  schema: Schema;
}

interface Media {
  schema: Schema;
  example?: unknown;
}

export interface Answer {
  description: string;
  headers?: Readonly<Record<string, { description: string; schema: Schema }>>;
  content?: Readonly<Record<string, Media>>;
}

export interface Operation {
  operationId: string;
  tags: readonly string[];
  summary: string;
  description?: string;
  /** Absent: as the whole document says. */
  security?: readonly Readonly<Record<string, readonly string[]>>[];
  parameters?: readonly Parameter[];
  requestBody?: { required: true; content: Readonly<Record<string, Media>> };
  responses: Readonly<Record<string, Answer | AnswerRef>>;
}

export interface AnswerRef {
  $ref: string;
}

export type Method = "get" | "post" | "delete";
export type Paths = Readonly<Record<string, Readonly<Partial<Record<Method, Operation>>>>>;

export const CLIENT_KEY = [{ clientKey: [] }, { clientKeyHeader: [] }, {}] as const;
export const ADMIN_KEY = [{ adminKey: [] }] as const;
/** The admin key once one is set. */
export const ADMIN_KEY_IF_SET = [{ adminKey: [] }, {}] as const;
export const NO_KEY = [] as const;

export const REQUEST_ID: Parameter = {
  name: "x-request-id",
  in: "header",
  description:
    "The client's own id, if it is at most 128 plain characters; it comes back in the answer, else a new one.",
  schema: { type: "string" },
};

export function jsonBody(schema: Schema, example?: unknown): NonNullable<Operation["requestBody"]> {
  return { required: true, content: { "application/json": { schema, ...(example !== undefined && { example }) } } };
}

export function json(description: string, schema: Schema, headers?: Answer["headers"]): Answer {
  return { description, ...(headers !== undefined && { headers }), content: { "application/json": { schema } } };
}

const WHEN: Readonly<Record<number, string>> = {
  400: "The request is wrong",
  401: "A key is needed",
  403: "The key may not do that",
  404: "There is no such thing",
  409: "Taken",
  413: "The body is too large",
  415: "Not uncompressed JSON",
  429: "Too many requests",
  502: "A worker failed",
  503: "Nobody can take the request now",
  504: "A worker took too long",
};

/** References to the router's errors, by status. */
export function errors(...statuses: readonly number[]): Record<string, AnswerRef> {
  return Object.fromEntries(
    statuses.map((status) => [String(status), { $ref: `#/components/responses/Error${status}` }]),
  );
}

/** What they refer to: their codes are in `x-router-error-code`. */
export function errorAnswers(): Record<string, Answer> {
  return Object.fromEntries(
    Object.entries(WHEN).map(([status, when]) => [
      `Error${status}`,
      json(when, ref("Error"), {
        "x-router-error-code": { description: "The router's code, whatever an engine said", schema: ref("ErrorCode") },
        ...((status === "429" || status === "503") && {
          "retry-after": { description: "Seconds", schema: { type: "integer", minimum: 1 } },
        }),
      }),
    ]),
  );
}
