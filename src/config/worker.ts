import * as v from "valibot";
import { mapping } from "./mapping.ts";
import { envName, label, quantity, text, whole } from "./scalars.ts";
import { wanted } from "./wanted.ts";
import { parseWorkerUrl, urlHost } from "./worker-url.ts";

/** Address of an engine, normalised: scheme and host in lower case, base path kept, no slash at the end, IPv6 in brackets. */
const workerUrl = v.pipe(
  v.string(wanted("a URL such as http://10.0.0.1:30000")),
  v.rawTransform(function normaliseWorkerUrl({ dataset, addIssue, NEVER }) {
    const parsed = parseWorkerUrl(dataset.value);
    if ("problem" in parsed) {
      addIssue({ message: parsed.problem });
      return NEVER;
    }
    return parsed.url;
  }),
);

const HOST = "a host name or address without scheme and port";

/** A host alone. A bare IPv6 address gets its brackets, so that `host:port` can be put together anywhere. */
const hostName = v.pipe(
  text(HOST),
  v.transform((host) => (host.includes(":") && !host.startsWith("[") ? `[${host}]` : host)),
  v.check(function isHost(host) {
    const url = URL.parse(`http://${host}/`);
    return (
      url !== null && url.pathname === "/" && url.port === "" && url.username === "" && !/[/?#@\\]|\]:|:$/.test(host)
    );
  }, wanted(HOST)),
);

const port = whole(1, 65535);

export const workerObject = v.pipe(
  mapping(
    {
      url: workerUrl,
      name: v.optional(label),
      weight: v.optional(
        v.pipe(
          quantity(0),
          v.gtValue(
            0,
            wanted("a number above 0", () => "a worker that gets nothing is a drained one"),
          ),
        ),
        1,
      ),
      apiKeyEnv: v.optional(envName),
      bootstrapHost: v.optional(hostName),
      // No defaults here: an SGLang server tells its own, and only what is written wins over that.
      bootstrapPort: v.optional(port),
      dpSize: v.optional(whole(1)),
      engineId: v.optional(text()),
      kvHost: v.optional(text()),
      kvPort: v.optional(port, 5600),
      tpSize: v.optional(whole(1), 1),
      ppSize: v.optional(whole(1), 1),
    },
    wanted("a URL or a mapping with a url"),
  ),
  v.transform((worker) => ({ ...worker, bootstrapHost: worker.bootstrapHost ?? urlHost(worker.url) })),
);

const workerText = v.pipe(
  v.string(),
  v.transform((url) => ({ url })),
  workerObject,
);

/** One engine as written: a URL, or an object with one. Comes out as an object with every default but the name. */
export const workerSchema = v.lazy((input) => (typeof input === "string" ? workerText : workerObject));

export type { WorkerEntry } from "./types.ts";
