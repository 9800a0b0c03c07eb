import {
  type Answer,
  CLIENT_KEY,
  errors,
  json,
  jsonBody,
  type Operation,
  type Paths,
  REQUEST_ID,
} from "./operation.ts";
import { flag, list, object, type Schema, text } from "./schema.ts";

const anyOf = (...anyOf: Schema[]): Schema => ({ anyOf });
const members = { type: "object", additionalProperties: true } as const;

const STREAM = flag("Answer as server-sent events.");
const MODEL = text("A model's id, alias or adapter.");

/** What holds for all of them. */
export const GENERATION_RULES = `Split into prefill and decode, as far as the engine knows it.

Until the first event that carries an answer, every failure is a real HTTP status. After it, a failure is one error event at an event boundary, then the API's end mark, then a clean end of the body.

Everything the router does not own goes to the engine byte for byte: unknown members, key order, digits of numbers. Members that belong to the router (\`bootstrap_*\`, \`kv_transfer_params\`, \`disaggregated_params\`, \`rid\`, \`request_id\`, …) are removed.`;

function body(properties: Readonly<Record<string, Schema>>, optional: readonly string[]): Schema {
  return { ...object(properties, optional), additionalProperties: true };
}

const ROUTED: NonNullable<Answer["headers"]> = {
  "x-request-id": { description: "The request's id", schema: text() },
  "x-router-path": {
    description: "The way it took",
    schema: { type: "string", enum: ["disaggregated", "aggregated", "decode-only", "prefill-only"] },
  },
  "x-router-pool": { description: "Name of the pool", schema: text() },
  "x-router-prefill": { description: "Name of the prefill worker, never its address", schema: text() },
  "x-router-decode": { description: "Name of the decode worker, never its address", schema: text() },
};

interface Generation {
  id: string;
  summary: string;
  description?: string;
  schema: Schema;
  example: unknown;
}

function generation({ id, summary, description, schema, example }: Generation): { post: Operation } {
  return {
    post: {
      operationId: id,
      tags: ["Generation"],
      summary,
      ...(description !== undefined && { description }),
      security: CLIENT_KEY,
      parameters: [
        REQUEST_ID,
        {
          name: "x-router-timing",
          in: "header",
          description: "`1`: a buffered answer says in `server-timing` where its time went.",
          schema: { type: "string", enum: ["1"] },
        },
      ],
      requestBody: jsonBody(schema, example),
      responses: {
        "200": {
          description: "The engine's answer",
          headers: ROUTED,
          content: {
            "application/json": { schema: members },
            "text/event-stream": { schema: text("With `stream: true`. Decode's own events.") },
          },
        },
        ...errors(400, 401, 403, 404, 413, 415, 429, 502, 503, 504),
      },
    },
  };
}

const ASK = "What runs under the bridge?";

/** POST routes that may be split into prefill and decode (contract section 3). */
export const generationPaths: Paths = {
  "/v1/chat/completions": generation({
    id: "chat",
    summary: "Chat completion",
    schema: body({ model: MODEL, messages: list(members), stream: STREAM }, ["stream"]),
    example: { model: "demo-model", stream: true, messages: [{ role: "user", content: ASK }] },
  }),
  "/v1/completions": generation({
    id: "completions",
    summary: "Text completion",
    schema: body(
      {
        model: MODEL,
        prompt: anyOf(text(), list({})),
        prompt_embeds: anyOf(text(), list({})),
        stream: STREAM,
      },
      ["prompt", "prompt_embeds", "stream"],
    ),
    example: { model: "demo-model", prompt: ASK },
  }),
  "/v1/responses": generation({
    id: "responses",
    summary: "Response",
    description: "Under a split, `previous_response_id` and `background: true` are refused.",
    schema: body({ model: MODEL, input: anyOf(text(), list({})), stream: STREAM }, ["stream"]),
    example: { model: "demo-model", input: ASK },
  }),
  "/v1/messages": generation({
    id: "messages",
    summary: "Message",
    description: 'Errors come in this API\'s own envelope, `{"type":"error","error":{…}}`.',
    schema: body({ model: MODEL, messages: list(members), stream: STREAM }, ["stream"]),
    example: { model: "demo-model", max_tokens: 100, messages: [{ role: "user", content: ASK }] },
  }),
  "/generate": generation({
    id: "generate",
    summary: "SGLang's own API",
    description: "For SGLang pools. Without `model` it goes to the only SGLang model there is.",
    schema: body(
      {
        model: MODEL,
        text: anyOf(text(), list({})),
        input_ids: anyOf(text(), list({})),
        input_embeds: anyOf(text(), list({})),
        stream: STREAM,
      },
      ["model", "text", "input_ids", "input_embeds", "stream"],
    ),
    example: { text: ASK },
  }),
};

function forwarded(id: string, summary: string): { post: Operation } {
  return {
    post: {
      operationId: id,
      tags: ["One worker"],
      summary,
      description: "One aggregated worker answers alone. Where none is configured: 404.",
      security: CLIENT_KEY,
      parameters: [REQUEST_ID],
      requestBody: jsonBody(body({ model: MODEL }, [])),
      responses: {
        "200": json("The engine's answer", members, ROUTED),
        ...errors(400, 401, 403, 404, 413, 415, 429, 502, 503, 504),
      },
    },
  };
}

/** POST routes without a split (contract section 3). */
export const forwardedPaths: Paths = {
  "/v1/embeddings": forwarded("embeddings", "Embeddings"),
  "/v1/rerank": forwarded("rerank", "Rerank"),
  "/v1/score": forwarded("score", "Score"),
  "/v1/classify": forwarded("classify", "Classify"),
  "/tokenize": forwarded("tokenize", "Text to tokens"),
  "/detokenize": forwarded("detokenize", "Tokens to text"),
};
