#!/usr/bin/env bun
import { parseArguments, UsageError } from "./cli/arguments.ts";
import { processOutput } from "./cli/output.ts";

const EXIT_CONFIGURATION = 1;
const EXIT_USAGE = 2;

/**
 * Runs one command line and answers its exit code (contract section 1). Each command's code is loaded only when it is the one: start-up
 * is measured in tens of milliseconds, and the demo's simulator has no business in `serve`.
 */
async function main(argv: readonly string[]): Promise<number> {
  const output = processOutput();
  const context = { env: process.env, output };
  try {
    const parsed = parseArguments(argv);
    switch (parsed.command) {
      case "help":
        output.line((await import("./cli/help.ts")).helpText());
        return 0;
      case "version":
        output.line((await import("../package.json", { with: { type: "json" } })).default.version);
        return 0;
      case "check":
        return await (await import("./cli/check.ts")).runCheck({ ...context, args: parsed.args });
      case "serve":
        return await (await import("./cli/serve.ts")).runServe({ ...context, args: parsed.args });
      case "demo":
        return await (await import("./cli/demo.ts")).runDemo({ ...context, args: parsed.args });
      case "simulate":
        return await (await import("./cli/simulate.ts")).runSimulate(parsed.args);
    }
  } catch (error) {
    if (error instanceof UsageError) {
      const { USAGE } = await import("./cli/help.ts");
      output.error(`${error.message}\n\n${USAGE}`);
      return EXIT_USAGE;
    }
    // By name, so that the commands that need no configuration do not load its schema.
    if (error instanceof Error && error.name === "ConfigError") {
      output.error(`bad configuration\n${error.message}`);
      return EXIT_CONFIGURATION;
    }
    throw error;
  }
}

const code = await main(process.argv.slice(2));
// A pooled connection or a timer must not keep a finished command alive; what was written to a pipe must still get out.
process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
