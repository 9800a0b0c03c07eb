/** Writes docs/config.schema.json from the schema in src/config. Run it after a change there: bun scripts/config-schema.ts */
import { writeFileSync } from "node:fs";
import { configJsonSchema } from "../src/config/json-schema.ts";

const file = new URL("../docs/config.schema.json", import.meta.url);
writeFileSync(file, `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
