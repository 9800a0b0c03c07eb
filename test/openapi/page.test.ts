import { expect, test } from "bun:test";
import { openApiDocument } from "../../src/openapi/document.ts";
import { joinSchema } from "../../src/openapi/join-schema.ts";
import { docsPage } from "../../src/openapi/page.ts";

const document = openApiDocument(joinSchema());
const page = docsPage(document);

test("the page has a section for every operation and every schema, and every link of it leads somewhere", () => {
  const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!));
  for (const methods of Object.values(document.paths)) {
    for (const { operationId } of Object.values(methods)) expect(ids).toContain(operationId);
  }
  const lost = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id!).filter((id) => !ids.has(id));
  expect(lost).toEqual([]);
});

test("the page needs nothing from elsewhere: no script, no address of another host", () => {
  expect(page).not.toContain("<script");
  const outside = [...page.matchAll(/(?:src|href)="([^"]*)"/g)].filter(([, to]) => /^(https?:)?\/\//.test(to!));
  expect(outside).toEqual([]);
});

test("what the document says is text on the page, never markup", () => {
  const info = { ...document.info, description: '<img src=x onerror="x"> & `a<b`' };
  const shown = docsPage({ ...document, info });
  expect(shown).toContain("&lt;img src=x onerror=&quot;x&quot;&gt; &amp; <code>a&lt;b</code>");
  expect(shown).not.toContain("<img");
});
