import { version } from "../version.ts";
import { schemas } from "./components.ts";
import { adminPaths, statePaths } from "./fleet.ts";
import { forwardedPaths, GENERATION_RULES, generationPaths } from "./generation.ts";
import { type Answer, errorAnswers, type Paths } from "./operation.ts";
import type { Schema } from "./schema.ts";

export interface OpenApiDocument {
  openapi: "3.1.0";
  info: {
    title: string;
    version: string;
    summary: string;
    description: string;
    license: { name: string; identifier: string };
  };
  servers: readonly { url: string }[];
  tags: readonly { name: string; description: string }[];
  paths: Paths;
  components: {
    schemas: Readonly<Record<string, Schema>>;
    responses: Readonly<Record<string, Answer>>;
    securitySchemes: Readonly<Record<string, object>>;
  };
}

/** The whole API (contract sections 3, 4 and 7). `joinSchema`: the body of `POST /workers`. */
export function openApiDocument(joinSchema: Schema): OpenApiDocument {
  return {
    openapi: "3.1.0",
    info: {
      title: "prefill-router",
      version,
      summary: "Request router for LLM serving with separated prefill and decode",
      description:
        "Requests in the APIs that engines speak go in, each is split into a prefill and a decode leg, and the answer comes out as one engine would give it.",
      license: { name: "Apache License 2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "." }],
    tags: [
      { name: "Generation", description: GENERATION_RULES },
      { name: "One worker", description: "Answered by one aggregated worker, without a split." },
      { name: "Models", description: "What can be asked for." },
      { name: "State", description: "For balancers and monitoring. No key needed." },
      { name: "Workers", description: "Who takes the work. With the admin key; without one set, 404." },
      { name: "Pages", description: "For people." },
    ],
    paths: { ...generationPaths, ...forwardedPaths, ...statePaths, ...adminPaths },
    components: {
      schemas: { ...schemas, WorkerJoin: joinSchema },
      responses: errorAnswers(),
      securitySchemes: {
        clientKey: { type: "http", scheme: "bearer", description: "One of `auth.clientKeys`. Absent there: open." },
        clientKeyHeader: { type: "apiKey", in: "header", name: "x-api-key", description: "The same key." },
        adminKey: { type: "http", scheme: "bearer", description: "The key that `auth.adminKeyEnv` names." },
      },
    },
  };
}
