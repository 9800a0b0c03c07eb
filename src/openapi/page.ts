import type { OpenApiDocument } from "./document.ts";
import { ERRORS } from "./errors.ts";
import type { Answer, Operation } from "./operation.ts";
import type { Schema } from "./schema.ts";

/** The document as a page to read: plain HTML, without a script. */
export function docsPage(document: OpenApiDocument): string {
  const { info, tags, components } = document;
  const groups = tags.map((tag) => ({ tag, operations: operationsOf(document, tag.name) }));
  const index = groups
    .map(
      ({ tag, operations }) =>
        `<h2>${escapeHtml(tag.name)}</h2>${operations.map(({ path, method, operation }) => `<a href="#${operation.operationId}">${escapeHtml(path)}<small> ${method}</small></a>`).join("")}`,
    )
    .join("");
  const shared = Object.keys(components.schemas).filter((name) => name !== "ErrorCode");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<title>API – prefill-router</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="assets/docs.css">
</head>
<body>
<header>
<h1>prefill-router <small>${escapeHtml(info.version)}</small></h1>
<nav aria-label="Pages"><a href=".">Dashboard</a> <a href="openapi.json">openapi.json</a></nav>
</header>
<main>
<aside><nav aria-label="Contents">${index}<h2>Shared</h2><a href="#errors">Errors</a>${shared.map((name) => `<a href="#schema-${name}">${name}</a>`).join("")}</nav></aside>
<article>
<p class="lead">${prose(info.description)}</p>
<p class="lead">A client's key goes in <code>authorization: Bearer</code> or <code>x-api-key</code>, if the router has any; the admin key in <code>authorization: Bearer</code>.</p>
${groups.map(({ tag, operations }) => `<h2>${escapeHtml(tag.name)}</h2>${paragraphs(tag.description)}${operations.map((placed) => operationSection(placed, components.responses)).join("")}`).join("\n")}
<h2 id="errors">Errors</h2>
<section><div class="scroll"><table>${Object.entries(ERRORS)
    .map(([code, [statuses, when]]) => row(`<code>${code}</code>`, statuses.join(", "), prose(when)))
    .join("")}</table></div></section>
<h2>Schemas</h2>
${shared.map((name) => `<section id="schema-${name}"><h3>${name}</h3>${members(components.schemas[name]!)}</section>`).join("\n")}
</article>
</main>
</body>
</html>
`;
}

interface Placed {
  path: string;
  method: string;
  operation: Operation;
}

function operationsOf(document: OpenApiDocument, tag: string): Placed[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.tags.includes(tag))
      .map(([method, operation]) => ({ path, method, operation })),
  );
}

function operationSection({ path, method, operation }: Placed, shared: Readonly<Record<string, Answer>>): string {
  const { operationId, summary, description = "", parameters = [], requestBody, responses } = operation;
  const parts = [
    `<h3><span class="method" data-method="${method}">${method.toUpperCase()}</span> ${escapeHtml(path)}<span class="key">${keyOf(operation)}</span></h3>`,
    `<p><strong>${escapeHtml(summary)}</strong></p>`,
    paragraphs(description),
  ];
  if (parameters.length > 0) {
    const rows = parameters.map(({ name, in: place, schema, description: meaning }) =>
      row(`<code>${escapeHtml(name)}</code>`, `${place}, ${typeOf(schema)}`, prose(meaning)),
    );
    parts.push(`<h4>Parameters</h4>${table(rows)}`);
  }
  for (const { schema, example } of Object.values(requestBody?.content ?? {})) {
    parts.push("<h4>Body</h4>", members(schema));
    if (example !== undefined)
      parts.push(`<pre tabindex="0">${escapeHtml(curl(method, path, example, operation))}</pre>`);
  }
  parts.push(`<h4>Answers</h4>${table(answerRows(responses, shared))}`);
  return `<section id="${operationId}">${parts.join("\n")}</section>`;
}

function keyOf({ security = [] }: Operation): string {
  const optional = security.some((way) => Object.keys(way).length === 0);
  const names = security.flatMap((way) => Object.keys(way));
  if (names.length === 0) return "no key";
  return `${names.includes("adminKey") ? "admin key" : "client key"}${optional ? ", if one is set" : ""}`;
}

function answerRows(answers: Operation["responses"], shared: Readonly<Record<string, Answer>>): string[] {
  const own = Object.entries(answers).flatMap(([status, answer]) =>
    "$ref" in answer ? [] : [answerRow(status, answer)],
  );
  // All errors look alike: one line for all of them.
  const errors = Object.entries(answers).flatMap(([status, answer]) => {
    if (!("$ref" in answer)) return [];
    const { description } = shared[answer.$ref.slice(answer.$ref.lastIndexOf("/") + 1)]!;
    return [`<code>${status}</code> ${prose(description)}`];
  });
  if (errors.length > 0) own.push(row("Errors", typeOf({ $ref: "#/components/schemas/Error" }), errors.join("<br>")));
  return own;
}

function answerRow(status: string, { description, content = {}, headers = {} }: Answer): string {
  const types = Object.entries(content).map(([type, { schema }]) => {
    const name = typeOf(schema);
    return name === "string" || name === "object" ? escapeHtml(type) : name;
  });
  const carried = Object.keys(headers).map((name) => `<code>${escapeHtml(name)}</code>`);
  const note = carried.length > 0 ? `<br>${carried.join(", ")}` : "";
  return row(`<code>${status}</code>`, types.join(", "), prose(description) + note);
}

/** A table of an object's members, or the type alone. */
function members(schema: Schema): string {
  if (schema.properties === undefined) return `<p>${typeOf(schema)}</p>`;
  const rows = Object.entries(schema.properties).map(([name, member]) => {
    const needed = schema.required?.includes(name) === true ? "" : ", optional";
    return row(`<code>${escapeHtml(name)}</code>`, typeOf(member) + needed, prose(member.description ?? ""));
  });
  const more = schema.additionalProperties === true ? "<p>Other members pass.</p>" : "";
  return table(rows) + more;
}

function typeOf(schema: Schema): string {
  const { $ref, type, enum: values, items, anyOf } = schema;
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf("/") + 1);
    return `<a href="#${name === "ErrorCode" ? "errors" : `schema-${name}`}">${escapeHtml(name)}</a>`;
  }
  if (values !== undefined) return values.map((value) => `<code>${escapeHtml(String(value))}</code>`).join(" ");
  if (schema.const !== undefined) return `<code>${escapeHtml(String(schema.const))}</code>`;
  if (anyOf !== undefined) return anyOf.map(typeOf).join(" or ");
  if (items !== undefined) return Object.keys(items).length === 0 ? "list" : `list of ${typeOf(items)}`;
  return typeof type === "string" ? type : (type?.join(" or ") ?? "any");
}

function curl(method: string, path: string, example: unknown, operation: Operation): string {
  const key = keyOf(operation).startsWith("admin") ? ` -H "authorization: Bearer $ADMIN_KEY"` : "";
  const verb = method === "post" ? "" : ` -X ${method.toUpperCase()}`;
  return `curl -N${verb} http://127.0.0.1:8000${path}${key} -H 'content-type: application/json' \\\n  -d '${JSON.stringify(example)}'`;
}

function table(rows: readonly string[]): string {
  return `<div class="scroll"><table>${rows.join("")}</table></div>`;
}

function row(name: string, type: string, meaning: string): string {
  return `<tr><th scope="row">${name}</th><td>${type}</td><td>${meaning}</td></tr>`;
}

function paragraphs(text: string): string {
  return text
    .split("\n\n")
    .filter((part) => part !== "")
    .map((part) => `<p>${prose(part)}</p>`)
    .join("");
}

/** Text with `code` in it. */
function prose(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
