import * as v from "valibot";
import { aList, mapping } from "./mapping.ts";
import { policySchema } from "./policies.ts";
import { envName, flag, label, milliseconds, quantity, serviceUrl, text, whole } from "./scalars.ts";
import { wanted, wantedOneOf } from "./wanted.ts";

// The sections of contract section 2, in its order. Defaults stand here and nowhere else.

const LATE_FAILURE = ["any", "definitive"] as const;
const ON_NO_PREFILL = ["reject", "decode-only"] as const;
const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;

export const lateFailure = v.picklist(LATE_FAILURE, wantedOneOf(LATE_FAILURE));

export const listen = mapping({
  host: v.optional(text("a host name or address"), "127.0.0.1"),
  // 0 lets the system choose, as everywhere; the start line tells which port it became.
  port: v.optional(whole(0, 65535), 8000),
});

/** Without defaults: they depend on the platform and are filled in by `completeConfig`. */
export const policy = mapping({ prefill: v.optional(policySchema), decode: v.optional(policySchema) });

export const disaggregation = mapping({
  onNoPrefill: v.optional(v.picklist(ON_NO_PREFILL, wantedOneOf(ON_NO_PREFILL)), "reject"),
  /** 0 = always split. */
  minPromptTokens: v.optional(whole(0), 0),
});

/** Milliseconds. 0 = no limit, unless said otherwise. */
export const timeouts = mapping({
  connectMs: v.optional(milliseconds(), 5000),
  prefillMs: v.optional(milliseconds(), 300_000),
  firstTokenMs: v.optional(milliseconds(), 300_000),
  idleMs: v.optional(milliseconds(), 120_000),
  totalMs: v.optional(milliseconds(), 600_000),
  /** 0 = a tail is cut with the response. */
  tailMs: v.optional(milliseconds(), 20_000),
  /** 0 = a finished answer does not wait. */
  settleMs: v.optional(milliseconds(), 500),
  handoffMs: v.optional(milliseconds(), 20_000),
  /** 0 = no comments. */
  keepAliveMs: v.optional(milliseconds(), 0),
  /** 0 = end at once. */
  shutdownMs: v.optional(milliseconds(), 30_000),
});

/** Only `queue` and `queueMs` know a 0: a router without room for one request or one byte serves nobody. */
export const limits = mapping({
  bodyBytes: v.optional(whole(1), 33_554_432),
  concurrency: v.optional(whole(1), 4096),
  /** 0 = no waiting places. */
  queue: v.optional(whole(0), 0),
  /** 0 = no limit. */
  queueMs: v.optional(milliseconds(), 10_000),
  tailBytes: v.optional(whole(1), 8_388_608),
  eventBytes: v.optional(whole(1), 16_777_216),
  fanout: v.optional(whole(1), 8),
});

export const retries = mapping({
  /** 0 = off. */
  maxRetries: v.optional(whole(0, 100), 2),
  backoffMs: v.optional(milliseconds(), 50),
  maxBackoffMs: v.optional(milliseconds(), 1000),
  /** Retries per request over the last 10 s; 0 = no such limit. */
  budget: v.optional(quantity(0), 0.2),
  on429: v.optional(flag, false),
});

export const breaker = mapping({
  failures: v.optional(whole(1), 5),
  openMs: v.optional(milliseconds(1), 10_000),
  enabled: v.optional(flag, true),
});

export const health = mapping({
  /** 0 = off. */
  intervalMs: v.optional(milliseconds(), 5000),
  timeoutMs: v.optional(milliseconds(1), 2000),
  failures: v.optional(whole(1), 2),
  successes: v.optional(whole(1), 1),
  /** Absent = the engine's own: /ready for sglang, /health for the others. */
  path: v.optional(
    v.pipe(
      v.string(wanted('a path that starts with "/"')),
      v.regex(/^\/[^\s?#]*$/, wanted('a path that starts with "/"')),
    ),
  ),
});

const clientKey = mapping({
  name: label,
  keyEnv: envName,
  /** Absent = all. */
  models: v.optional(v.pipe(v.array(text(), aList), v.minLength(1, wanted("at least one model")))),
  requestsPerMinute: v.optional(whole(1)),
  tokensPerMinute: v.optional(whole(1)),
  /** Absent = all. */
  allowedRegions: v.optional(v.pipe(v.array(text(), aList), v.minLength(1, wanted("at least one region")))),
});

export const auth = mapping({
  /** Absent = open. An empty list would be read as "nobody" by one and as "everybody" by another, so it is refused. */
  clientKeys: v.optional(
    v.pipe(
      v.array(clientKey, aList),
      v.minLength(
        1,
        wanted("at least one key", () => "leave clientKeys out to let everybody in"),
      ),
    ),
  ),
  /** Absent = the admin routes answer 404. */
  adminKeyEnv: v.optional(envName),
});

const ORIGIN = '"*" or an origin such as https://app.example';

export const cors = mapping({
  origins: v.optional(
    v.array(
      v.pipe(
        v.string(wanted(ORIGIN)),
        v.check((s) => s === "*" || URL.parse(s)?.origin === s, wanted(ORIGIN)),
      ),
      aList,
    ),
    [],
  ),
});

function degrees(most: number) {
  const message = wanted(`degrees from -${most} to ${most}`);
  return v.pipe(v.number(message), v.minValue(-most, message), v.maxValue(most, message));
}

export const regions = v.array(mapping({ name: label, latitude: degrees(90), longitude: degrees(180) }), aList);

export const location = mapping({ region: text() });

export const geoHeader = v.pipe(
  v.string(wanted("the name of a header")),
  v.regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, wanted("the name of a header")),
  v.toLowerCase(),
);

/** A url that is none has been told of already. */
function namesDatabase(url: string): boolean {
  const path = URL.parse(url)?.pathname ?? "";
  return /^\/?\d*$/.test(path);
}

export const store = mapping({
  url: v.pipe(
    serviceUrl(["redis", "rediss"], "redis://127.0.0.1:6379"),
    v.check(namesDatabase, wanted("no path, or the number of a database")),
  ),
  passwordEnv: v.optional(envName),
});

export const telemetry = mapping({ otlpUrl: v.optional(serviceUrl(["http", "https"], "http://127.0.0.1:4318")) });

export const log = mapping({
  level: v.optional(v.picklist(LOG_LEVELS, wantedOneOf(LOG_LEVELS)), "info"),
  prompts: v.optional(flag, false),
});
