import { expect, test } from "bun:test";
import { readJoinBody } from "../../src/fleet/join-body.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { joinSchema } from "../../src/openapi/join-schema.ts";
import written from "../../src/openapi/openapi.json" with { type: "json" };
import { ADMIN, EngineHouse, routerOver } from "../fleet/house.ts";

const document = openApiDocument(joinSchema());
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

function house() {
  return routerOver(new EngineHouse(), {
    models: [{ id: "m", pools: [{ engine: "openai", workers: [{ url: "http://w", name: "w" }] }] }],
  }).router;
}

test("the committed document is what its sources say (bun scripts/openapi.ts)", () => {
  expect(written as unknown).toEqual(JSON.parse(JSON.stringify(document)));
});

test("every route of the app is documented, and every documented path is a route", () => {
  const routes = new Set(
    house()
      .app.routes.map(({ path }) => path)
      .filter((path) => path !== "/*")
      .map((path) => path.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}")),
  );
  expect(Object.keys(document.paths).sort()).toEqual([...routes].sort());
});

test("of each route, the documented methods are taken and all others refused with 405", async () => {
  const router = house();
  const wrong: string[] = [];
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      const documented = Object.hasOwn(operations, method.toLowerCase());
      const address = path.replace("{file}", "dashboard.css").replace("{name}", "w").replace("{id}", "m");
      const response = await router.fetch(
        new Request(`http://router${address}`, { method, headers: { authorization: `Bearer ${ADMIN}` } }),
      );
      await response.body?.cancel();
      if ((response.status === 405) === documented) wrong.push(`${method} ${path}: ${response.status}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("a documented success of a route without parameters is what the router answers", async () => {
  const router = house();
  for (const path of ["/health", "/ready", "/metrics", "/", "/docs", "/openapi.json", "/v1/models", "/workers"]) {
    const response = await router.fetch(
      new Request(`http://router${path}`, { headers: { authorization: `Bearer ${ADMIN}` } }),
    );
    const answer = document.paths[path]!.get!.responses[String(response.status)];
    const types = answer !== undefined && "content" in answer ? Object.keys(answer.content ?? {}) : [];
    expect({ path, type: response.headers.get("content-type")!.split(";")[0]! }).toEqual({ path, type: types[0]! });
  }
});

test("answers have the members that the document names, and no others", async () => {
  const router = house();
  const get = async (path: string) =>
    (await router.fetch(new Request(`http://router${path}`, { headers: { authorization: `Bearer ${ADMIN}` } }))).json();
  const misfits = [
    ...misfitsOf("Readiness", await get("/ready")),
    ...misfitsOf("WorkerList", await get("/workers")),
    ...misfitsOf("Worker", await get("/workers/w")),
    ...misfitsOf("ModelList", await get("/v1/models")),
    ...misfitsOf("Error", await get("/nothing-here")),
  ];
  expect(misfits).toEqual([]);
});

test("every reference in the document leads somewhere", () => {
  const references = JSON.stringify(document).matchAll(/"\$ref":"#\/components\/(\w+)\/(\w+)"/g);
  const lost = [...references].filter(([, kind, name]) => {
    const components = document.components as unknown as Record<string, Record<string, unknown>>;
    return components[kind!]?.[name!] === undefined;
  });
  expect(lost).toEqual([]);
});

test("operation ids are unique, and tags are declared", () => {
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  const ids = operations.map(({ operationId }) => operationId);
  expect(new Set(ids).size).toBe(ids.length);
  const tags = new Set(document.tags.map(({ name }) => name));
  expect(operations.flatMap((operation) => operation.tags).filter((tag) => !tags.has(tag))).toEqual([]);
});

test("the body of POST /workers takes each documented member, and no other", () => {
  const { properties = {}, required } = joinSchema();
  const samples: Record<string, unknown> = { string: "x", integer: 1, number: 1 };
  for (const [member, schema] of Object.entries(properties)) {
    const value = schema.enum?.[0] ?? samples[String(schema.type)] ?? "x";
    const body = JSON.stringify({ url: "http://10.0.0.1:1", [member]: member === "url" ? "http://10.0.0.1:1" : value });
    expect(() => readJoinBody(body), member).not.toThrow();
  }
  expect(() => readJoinBody('{"url":"http://10.0.0.1:1","bootstrap_room":1}')).toThrow();
  for (const member of required ?? []) expect(() => readJoinBody("{}"), member).toThrow(member);
});

/** Where a value is not as the schema of that name says: members that are missing, unknown, or of another type. */
function misfitsOf(name: string, value: unknown): string[] {
  const schemas = document.components.schemas;
  return walk({ $ref: `#/components/schemas/${name}` }, value, name);

  function walk(given: (typeof schemas)[string], at: unknown, path: string): string[] {
    const schema = given.$ref === undefined ? given : schemas[given.$ref.split("/").at(-1)!]!;
    const types = schema.type === undefined ? [] : [schema.type].flat();
    if (
      types.length > 0 &&
      !types.includes(typeName(at)) &&
      !(types.includes("number") && typeName(at) === "integer")
    ) {
      return [`${path}: ${typeName(at)}, not ${types.join(" or ")}`];
    }
    if (schema.enum !== undefined && !schema.enum.includes(at as string)) return [`${path}: ${String(at)}`];
    if (schema.const !== undefined && schema.const !== at) return [`${path}: ${String(at)}`];
    if (Array.isArray(at)) return at.flatMap((item, i) => walk(schema.items!, item, `${path}[${i}]`));
    if (typeName(at) !== "object") return [];
    const members = at as Record<string, unknown>;
    const missing = (schema.required ?? [])
      .filter((key) => !(key in members))
      .map((key) => `${path}.${key} is missing`);
    const found = Object.entries(members).flatMap(([key, member]) => {
      const inner =
        schema.properties?.[key] ??
        (typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined);
      if (inner !== undefined) return walk(inner, member, `${path}.${key}`);
      return schema.additionalProperties === true ? [] : [`${path}.${key} is not documented`];
    });
    return [...missing, ...found];
  }
}

function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
