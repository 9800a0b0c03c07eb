import { ADMIN_KEY, ADMIN_KEY_IF_SET, CLIENT_KEY, errors, json, jsonBody, NO_KEY, type Paths } from "./operation.ts";
import { flag, list, object, ref, text, whole } from "./schema.ts";

const NAME = {
  name: "name",
  in: "path",
  required: true,
  description: "Name of the worker",
  schema: text(),
} as const;

const page = (description: string, type: string) => ({ description, content: { [type]: { schema: text() } } });

/** Models, the router's own state, and its pages. */
export const statePaths: Paths = {
  "/v1/models": {
    get: {
      operationId: "listModels",
      tags: ["Models"],
      summary: "All models",
      description: "The union over pools. What engines say of a model is kept; aliases and adapters are listed too.",
      security: CLIENT_KEY,
      responses: {
        "200": json("The models this key may use", ref("ModelList")),
        ...errors(401),
      },
    },
  },
  "/v1/models/{id}": {
    get: {
      operationId: "getModel",
      tags: ["Models"],
      summary: "One model",
      security: CLIENT_KEY,
      parameters: [
        {
          name: "id",
          in: "path",
          required: true,
          description: "Id, alias or adapter; it may contain slashes.",
          schema: text(),
        },
      ],
      responses: { "200": json("The model", ref("Model")), ...errors(401, 404) },
    },
  },
  "/health": {
    get: {
      operationId: "health",
      tags: ["State"],
      summary: "The process is alive",
      description: "It never looks at workers.",
      security: NO_KEY,
      responses: { "200": json("Alive", object({ status: { type: "string", const: "ok" } })) },
    },
  },
  "/ready": {
    get: {
      operationId: "ready",
      tags: ["State"],
      summary: "Every model can be served",
      description:
        "A usable prefill and a usable decode worker in one pool, or an aggregated worker, for each model; and the router is not shutting down.",
      security: NO_KEY,
      responses: {
        "200": json("Ready", ref("Readiness")),
        "503": json("Not ready, with the reason per model", ref("Readiness")),
      },
    },
  },
  "/metrics": {
    get: {
      operationId: "metrics",
      tags: ["State"],
      summary: "Metrics",
      description: "Names begin with `prefill_router_`.",
      security: NO_KEY,
      responses: { "200": page("Prometheus text", "text/plain") },
    },
  },
  "/": {
    get: {
      operationId: "dashboard",
      tags: ["Pages"],
      summary: "Dashboard",
      description: "A public shell; its data needs the admin key once one is set.",
      security: NO_KEY,
      responses: { "200": page("The page", "text/html") },
    },
  },
  "/dashboard/events": {
    get: {
      operationId: "dashboardEvents",
      tags: ["Pages"],
      summary: "The dashboard's data",
      description:
        "Server-sent events, two a second, each a JSON object: the fleet, the running requests, the last few hundred finished ones, counts by minute. What has not changed is left out. It costs nothing while nobody reads it. Made for the page; its members may change.",
      security: ADMIN_KEY_IF_SET,
      responses: { "200": page("The stream", "text/event-stream"), ...errors(401, 403, 503) },
    },
  },
  "/docs": {
    get: {
      operationId: "docs",
      tags: ["Pages"],
      summary: "This document to read",
      security: NO_KEY,
      responses: { "200": page("The page", "text/html") },
    },
  },
  "/openapi.json": {
    get: {
      operationId: "openapi",
      tags: ["Pages"],
      summary: "This document",
      security: NO_KEY,
      responses: { "200": json("OpenAPI 3.1", { type: "object" }) },
    },
  },
  "/assets/{file}": {
    get: {
      operationId: "asset",
      tags: ["Pages"],
      summary: "The pages' own files",
      security: NO_KEY,
      parameters: [{ name: "file", in: "path", required: true, description: "Name of the file", schema: text() }],
      responses: {
        "200": {
          description: "The file",
          content: { "text/javascript": { schema: text() }, "text/css": { schema: text() } },
        },
        ...errors(404),
      },
    },
  },
};

/** Admin routes; all of them are 404 while no admin key is set. */
export const adminPaths: Paths = {
  "/workers": {
    get: {
      operationId: "listWorkers",
      tags: ["Workers"],
      summary: "All workers",
      security: ADMIN_KEY,
      responses: { "200": json("The workers", ref("WorkerList")), ...errors(401, 403, 404) },
    },
    post: {
      operationId: "addWorker",
      tags: ["Workers"],
      summary: "Let a worker in",
      description:
        "What the request leaves open is looked up: the only model and pool there are, else what the engine tells of itself.",
      security: ADMIN_KEY,
      requestBody: jsonBody(ref("WorkerJoin"), {
        url: "http://10.0.0.7:30000",
        worker_type: "prefill",
        bootstrap_port: 8998,
      }),
      responses: {
        "201": json(
          "It is in",
          object({
            success: { type: "boolean", const: true },
            message: text(),
            worker: ref("Worker"),
            ignored: list(text(), "Members that were sent and mean nothing here."),
          }),
          { location: { description: "The worker's own route", schema: text() } },
        ),
        ...errors(400, 401, 403, 404, 409, 413, 415),
      },
    },
  },
  "/workers/{name}": {
    get: {
      operationId: "getWorker",
      tags: ["Workers"],
      summary: "One worker",
      security: ADMIN_KEY,
      parameters: [NAME],
      responses: { "200": json("The worker", ref("Worker")), ...errors(401, 403, 404) },
    },
    delete: {
      operationId: "removeWorker",
      tags: ["Workers"],
      summary: "Take a worker out at once",
      description: "What it has in hand runs on, and is told as `load`.",
      security: ADMIN_KEY,
      parameters: [NAME],
      responses: {
        "200": json(
          "It is out",
          object({ success: { type: "boolean", const: true }, message: text(), worker: ref("Worker") }),
        ),
        ...errors(401, 403, 404),
      },
    },
  },
  "/workers/{name}/drain": {
    post: {
      operationId: "drainWorker",
      tags: ["Workers"],
      summary: "Give a worker nothing new",
      description: "Ask again until `drained` is true.",
      security: ADMIN_KEY,
      parameters: [NAME],
      responses: {
        "200": json(
          "It is draining",
          object({
            draining: { type: "boolean", const: true },
            drained: flag("It has nothing in hand any more, from any router that shares the store."),
            in_flight: whole("Requests it has in hand from this router."),
            worker: ref("Worker"),
          }),
        ),
        ...errors(401, 403, 404),
      },
    },
  },
};
