/** Writes src/dashboard/assets.ts from src/dashboard/client. Run it after a change there: bun scripts/dashboard.ts */
import { writeFileSync } from "node:fs";
import { buildAssets } from "./dashboard-assets.ts";

writeFileSync(new URL("../src/dashboard/assets.ts", import.meta.url), await buildAssets());
