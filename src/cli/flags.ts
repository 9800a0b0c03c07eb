export const COMMANDS = ["serve", "check", "simulate", "demo"] as const;
export type CommandName = (typeof COMMANDS)[number];

interface FlagBase {
  /** The first is ours; the others are what people carry over from other routers. */
  names: readonly string[];
  commands: readonly CommandName[];
  /** What stands behind it in the help, e.g. `FILE`. */
  value: string;
  help: string;
}

export type Flag = FlagBase &
  (
    | { kind: "switch"; field: "pdDisaggregation" | "reusePort" | "json" | "offline" | "help" }
    | {
        kind: "text";
        field: "config" | "host" | "engine" | "model" | "connector" | "policy" | "prefillPolicy" | "decodePolicy";
      }
    | { kind: "port"; field: "port" }
    | { kind: "place"; field: "explain" }
    | { kind: "urls"; field: "decode" | "workerUrls"; many: boolean }
    | { kind: "prefill" }
  );

const BOTH = ["serve", "check"] as const;
const LISTENING = ["serve", "check", "demo"] as const;

/** Every flag (contract section 1), in the order the help shows them. */
export const FLAGS: readonly Flag[] = [
  {
    names: ["--config"],
    kind: "text",
    field: "config",
    commands: BOTH,
    value: "FILE",
    help: "configuration, YAML or JSON",
  },
  {
    names: ["--host"],
    kind: "text",
    field: "host",
    commands: LISTENING,
    value: "HOST",
    help: "address to listen on (127.0.0.1)",
  },
  {
    names: ["--port"],
    kind: "port",
    field: "port",
    commands: LISTENING,
    value: "PORT",
    help: "port to listen on (8000)",
  },
  {
    names: ["--reuse-port"],
    kind: "switch",
    field: "reusePort",
    commands: ["serve"],
    value: "",
    help: "share the port with other processes (Linux)",
  },
  {
    names: ["--engine"],
    kind: "text",
    field: "engine",
    commands: BOTH,
    value: "NAME",
    help: "sglang, vllm, trtllm or openai; without it the engines are asked",
  },
  {
    names: ["--model"],
    kind: "text",
    field: "model",
    commands: BOTH,
    value: "ID",
    help: "name the engines know; without it the engines are asked",
  },
  {
    names: ["--pd-disaggregation", "--vllm-pd-disaggregation"],
    kind: "switch",
    field: "pdDisaggregation",
    commands: BOTH,
    value: "",
    help: "prefill and decode are separate",
  },
  {
    names: ["--prefill"],
    kind: "prefill",
    commands: BOTH,
    value: "URL [BOOTSTRAP_PORT]",
    help: "a prefill worker (repeatable; bootstrap port 8998)",
  },
  {
    names: ["--decode"],
    kind: "urls",
    field: "decode",
    many: false,
    commands: BOTH,
    value: "URL",
    help: "a decode worker (repeatable)",
  },
  {
    names: ["--worker-urls"],
    kind: "urls",
    field: "workerUrls",
    many: true,
    commands: BOTH,
    value: "URL…",
    help: "aggregated workers, which do both",
  },
  {
    names: ["--kv-connector"],
    kind: "text",
    field: "connector",
    commands: BOTH,
    value: "NAME",
    help: "engine vllm: nixl or mooncake (nixl)",
  },
  {
    names: ["--policy"],
    kind: "text",
    field: "policy",
    commands: BOTH,
    value: "POLICY",
    help: "how workers are chosen, for both legs",
  },
  {
    names: ["--prefill-policy"],
    kind: "text",
    field: "prefillPolicy",
    commands: BOTH,
    value: "POLICY",
    help: "for prefill (prefix-aware)",
  },
  {
    names: ["--decode-policy"],
    kind: "text",
    field: "decodePolicy",
    commands: BOTH,
    value: "POLICY",
    help: "for decode (least-load)",
  },
  {
    names: ["--json"],
    kind: "switch",
    field: "json",
    commands: ["check"],
    value: "",
    help: "print the findings as JSON",
  },
  { names: ["--offline"], kind: "switch", field: "offline", commands: ["check"], value: "", help: "ask no engine" },
  {
    names: ["--explain"],
    kind: "place",
    field: "explain",
    commands: ["check"],
    value: "[LAT,LON]",
    help: "print what each pool costs, seen from a place (the router's own)",
  },
  { names: ["--help"], kind: "switch", field: "help", commands: LISTENING, value: "", help: "this text" },
];
