import { type CommandName, FLAGS } from "./flags.ts";

/** What to type, one line a command (contract section 1). */
export const USAGE = `usage: prefill-router serve     [--config FILE] [flags]   run the router
       prefill-router check     --config FILE [flags]     validate a configuration, probe the engines, print what it would route
       prefill-router simulate  --engine sglang|vllm|trtllm --role prefill|decode|aggregated [--port N] [flags]
       prefill-router demo                                simulated engines, router and dashboard in one process
       prefill-router --help | --version`;

const INDENT = 34;

function flagLines(command: CommandName, skip: ReadonlySet<string>): string {
  return FLAGS.filter((flag) => flag.commands.includes(command) && !skip.has(flag.names[0]!))
    .map((flag) => {
      const left = `  ${flag.names[0]} ${flag.value}`.trimEnd();
      const also = flag.names.length > 1 ? `; also ${flag.names.slice(1).join(", ")}` : "";
      return `${left.padEnd(INDENT)} ${flag.help}${also}`;
    })
    .join("\n");
}

/** The whole help text. */
export function helpText(): string {
  const serve = new Set(FLAGS.filter((flag) => flag.commands.includes("serve")).map((flag) => flag.names[0]!));
  return `prefill-router routes LLM requests between separate prefill and decode engines.

${USAGE}

serve and check:
${flagLines("serve", new Set())}

check alone:
${flagLines("check", serve)}

Policies: round-robin, random, power-of-two, least-load, prefix-aware, consistent-hash; other routers' spellings
(round_robin, cache_aware, power_of_two, consistent_hashing, least_load) are taken too.
Without --config and workers on the command line, ROUTER_CONFIG holds the configuration or the path to it.

Exit codes: 0 after a clean end, 1 for a bad configuration, 2 for bad usage.

Examples:
  prefill-router serve --config router.yaml
  prefill-router serve --engine sglang --pd-disaggregation --prefill http://10.0.0.1:30000 8998 --decode http://10.0.0.2:30000
  prefill-router check --config router.yaml --json`;
}
