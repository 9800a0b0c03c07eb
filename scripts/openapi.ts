/** Writes src/openapi/openapi.json. Run it after a change of routes, of src/openapi or of the version: bun scripts/openapi.ts */
import { writeFileSync } from "node:fs";
import { openApiDocument } from "../src/openapi/document.ts";
import { joinSchema } from "../src/openapi/join-schema.ts";

const file = new URL("../src/openapi/openapi.json", import.meta.url);
writeFileSync(file, `${JSON.stringify(openApiDocument(joinSchema()), null, 1)}\n`);
