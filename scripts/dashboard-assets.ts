import { fileURLToPath } from "node:url";

const client = fileURLToPath(new URL("../src/dashboard/client/", import.meta.url));

const ENTRIES = [
  { name: "dashboard.js", entry: "main.ts", type: "text/javascript; charset=utf-8" },
  { name: "dashboard.css", entry: "dashboard.css", type: "text/css; charset=utf-8" },
  { name: "docs.css", entry: "docs.css", type: "text/css; charset=utf-8" },
];

/**
 * The text of src/dashboard/assets.ts: the page's script and styles as strings, so that they are in the bundle on every runtime and
 * nothing has to be read from a disk. Same sources and same Bun, same text.
 */
export async function buildAssets(): Promise<string> {
  const lines = [
    "// Written by scripts/dashboard.ts from src/dashboard/client; a test sees to it that they fit.",
    "",
    "/** The dashboard's own files, by name. */",
    "export const assets: Readonly<Record<string, { type: string; text: string }>> = {",
  ];
  for (const { name, entry, type } of ENTRIES) {
    const built = await Bun.build({ entrypoints: [client + entry], target: "browser", format: "esm", minify: true });
    const text = await built.outputs[0]!.text();
    lines.push(`  ${JSON.stringify(name)}: {`, `    type: ${JSON.stringify(type)},`, `    text: ${JSON.stringify(text)},`, "  },");
  }
  lines.push("};", "");
  return lines.join("\n");
}
