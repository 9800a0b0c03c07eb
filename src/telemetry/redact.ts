/** Header and setting names whose value is a credential, whoever logs them. Compared without case, `-` and `_`. */
const CREDENTIALS = new Set([
  "authorization",
  "proxyauthorization",
  "cookie",
  "setcookie",
  "apikey",
  "xapikey",
  "adminkey",
  "token",
  "accesstoken",
  "bearer",
  "password",
  "passwd",
  "secret",
]);

/** Names under which a prompt, an answer or an engine's words travel (engines repeat a refused prompt in their messages). */
const CONTENT = new Set(["prompt", "messages", "input", "text", "content", "body", "enginemessage"]);

/** Errors whose message is the runtime's about our own code. Others may hold an engine's words, and parsers quote what they read. */
const OWN_MESSAGES = new Set(["TypeError", "RangeError", "ReferenceError"]);

const DEPTH = 4;

/**
 * A log field made safe: credentials gone by name, configured secrets and user info gone by value, content gone unless `prompts`.
 * Takes any value; gives one that JSON can print. Content that is left out leaves no trace (undefined).
 */
export function redact(
  name: string,
  value: unknown,
  prompts: boolean,
  mask: (text: string) => string,
  depth = 0,
): unknown {
  const plain = name.replaceAll(/[-_]/g, "").toLowerCase();
  if (CREDENTIALS.has(plain)) return "***";
  if (!prompts && CONTENT.has(plain)) return undefined;
  if (typeof value === "string") return mask(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" || typeof value === "boolean" || value === null) return value;
  if (typeof value !== "object") return undefined;
  if (depth >= DEPTH) return "…";
  if (value instanceof Error) return redactError(value, prompts, mask, depth);
  if (value instanceof URL) return mask(value.href);
  if (Array.isArray(value)) return value.map((item) => redact("", item, prompts, mask, depth + 1));
  const entries = value instanceof Headers || value instanceof Map ? [...value] : Object.entries(value);
  const out: Record<string, unknown> = {};
  for (const [key, member] of entries) out[mask(String(key))] = redact(String(key), member, prompts, mask, depth + 1);
  return out;
}

/** What tells errors apart without repeating what an engine wrote: names, codes, and where in our code it was thrown. */
function redactError(
  error: Error,
  prompts: boolean,
  mask: (text: string) => string,
  depth: number,
): Record<string, unknown> {
  const out: Record<string, unknown> = { name: error.name };
  for (const key of ["code", "status", "stage", "kind", "param"] as const) {
    const value = (error as unknown as Record<string, unknown>)[key];
    if (typeof value === "string" || typeof value === "number")
      out[key] = typeof value === "string" ? mask(value) : value;
  }
  if (prompts || OWN_MESSAGES.has(error.name)) out.message = mask(error.message);
  const frames = framesOf(error);
  if (frames.length > 0) out.at = frames.slice(0, 8).map((frame) => mask(frame.trim()));
  if (error.cause !== undefined) out.cause = redact("", error.cause, prompts, mask, depth + 1);
  return out;
}

/** A stack begins with the message, which may span lines and look like frames; it is cut off, then only places in the code are taken. */
function framesOf(error: Error): string[] {
  const stack = error.stack ?? "";
  const message = stack.indexOf(error.message);
  return (message === -1 ? stack : stack.slice(message + error.message.length)).split("\n").filter(isFrame);
}

function isFrame(line: string): boolean {
  return /^\s+at .*:\d+:\d+\)?$/.test(line);
}
