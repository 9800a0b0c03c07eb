import type { Context } from "hono";
import type { OpenApiDocument } from "../openapi/document.ts";
import written from "../openapi/openapi.json" with { type: "json" };
import { docsPage } from "../openapi/page.ts";
import { html } from "./html-response.ts";
import { json } from "./json-response.ts";

const document = written as unknown as OpenApiDocument;
/** Made when somebody first reads it. */
let page: string | undefined;

/** GET /openapi.json: OpenAPI 3.1. */
export function openapi(c: Context): Response {
  return json(c, 200, document);
}

/** GET /docs: the same to read. */
export function docs(c: Context): Response {
  page ??= docsPage(document);
  return html(c, page);
}
