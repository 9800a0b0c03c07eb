import { ConfigError } from "../config/issues.ts";
import { parseWorkerUrl } from "../config/worker-url.ts";
import { type ServeArguments, UsageError } from "./arguments.ts";
import { type Ask, engineOfOwner, type ListedModel, listModels, sglangInfo, versionOf } from "./probe.ts";

/** Whether the command line names workers, and so is a configuration of its own. */
export function isQuickStart(args: ServeArguments): boolean {
  return args.prefill.length + args.decode.length + args.workerUrls.length > 0;
}

/**
 * The configuration the quick-start flags describe (contract section 1), not yet checked: one model, one pool. What they leave
 * out, engine and model, the engines are asked for.
 *
 * Throws `UsageError` for flags that contradict each other, `ConfigError` naming the flag to give when the engines do not tell.
 */
export async function quickStartConfig(args: ServeArguments, ask: Ask): Promise<Record<string, unknown>> {
  if (args.pdDisaggregation && (args.prefill.length === 0 || args.decode.length === 0)) {
    throw new UsageError("--pd-disaggregation wants --prefill and --decode");
  }
  const urls = [
    ...args.prefill.map(({ url }) => address(url, "--prefill")),
    ...args.decode.map((url) => address(url, "--decode")),
    ...args.workerUrls.map((url) => address(url, "--worker-urls")),
  ];
  let engine = args.engine ?? (args.connector === undefined ? undefined : "vllm");
  let model: { id: string; adapters?: string[] } | undefined =
    args.model === undefined ? undefined : { id: args.model };
  if (engine === undefined || model === undefined) {
    const lists = await Promise.all(urls.map((url) => listModels(ask, url)));
    model ??= agreedModel(urls, lists);
    engine ??= await detectEngine(ask, urls, lists);
  }
  return {
    models: [
      {
        ...model,
        pools: [
          {
            engine,
            ...(args.connector !== undefined && { connector: args.connector }),
            prefill: args.prefill,
            decode: args.decode,
            workers: args.workerUrls,
          },
        ],
      },
    ],
  };
}

type Listing = ListedModel[] | { error: string };

/** The model all engines that answer agree on. Its further names and adapters go to the engines as they are. */
function agreedModel(urls: readonly string[], lists: readonly Listing[]): { id: string; adapters?: string[] } {
  const answered = lists.filter((list) => Array.isArray(list));
  const first = answered.find((list) => list.length > 0);
  const id = (first?.find((entry) => !entry.adapter) ?? first?.[0])?.id;
  if (id === undefined) {
    const said = lists.map((list, i) => `${urls[i]}: ${Array.isArray(list) ? "lists no model" : list.error}`);
    throw flagError("--model", `is required when no engine tells its model (${said.join("; ")})`);
  }
  const other = lists.findIndex((list) => Array.isArray(list) && !list.some((entry) => entry.id === id));
  if (other !== -1) {
    throw flagError("--model", `is required when engines serve different models: ${urls[other]} does not list "${id}"`);
  }
  const everywhere = first!.filter(
    (entry) => entry.id !== id && answered.every((list) => list.some((listed) => listed.id === entry.id)),
  );
  return { id, ...(everywhere.length > 0 && { adapters: everywhere.map((entry) => entry.id) }) };
}

/** By the owner in the model list, else by the routes only one engine has. */
async function detectEngine(ask: Ask, urls: readonly string[], lists: readonly Listing[]): Promise<string> {
  for (const list of lists) {
    const engine = Array.isArray(list) ? engineOfOwner(list[0]?.ownedBy ?? "") : undefined;
    if (engine !== undefined) return engine;
  }
  for (const [i, url] of urls.entries()) {
    if (!Array.isArray(lists[i])) continue;
    if ((await sglangInfo(ask, url)) !== undefined) return "sglang";
    if ((await versionOf(ask, url)) !== undefined) return "vllm";
  }
  throw flagError("--engine", "is required when the engines do not tell what they are, got nothing");
}

/** The normalised URL, before anybody is asked at it. Throws `ConfigError` naming the flag. */
function address(input: string, flag: string): string {
  const parsed = parseWorkerUrl(input);
  if ("problem" in parsed) throw flagError(flag, parsed.problem);
  return parsed.url;
}

function flagError(path: string, message: string): ConfigError {
  return new ConfigError([{ path, message }]);
}

/** Field of the configuration that the flags made → the flag it came from. */
const FLAG_OF: readonly (readonly [RegExp, string])[] = [
  [/^models\[0\]\.pools\[0\]\.prefill\b/, "--prefill"],
  [/^models\[0\]\.pools\[0\]\.decode\b/, "--decode"],
  [/^models\[0\]\.pools\[0\]\.workers\b/, "--worker-urls"],
  [/^models\[0\]\.pools\[0\]\.engine$/, "--engine"],
  [/^models\[0\]\.pools\[0\]\.connector$/, "--kv-connector"],
  [/^models\[0\]\.id$/, "--model"],
];

/** The same issues, named after the flags, since nobody wrote the fields. */
export function nameFlags(error: ConfigError): ConfigError {
  return new ConfigError(
    error.issues.map(function nameFlag({ path, message }) {
      const flag = FLAG_OF.find(([field]) => field.test(path));
      return flag === undefined ? { path, message } : { path: `${flag[1]} (${path})`, message };
    }),
  );
}
