import * as v from "valibot";
import { MAX_DELAY_MS, show, wanted } from "./wanted.ts";

/** A whole number within bounds. */
export function whole(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`;
  const message = wanted(`a whole number ${range}`);
  return v.pipe(v.number(message), v.integer(message), v.minValue(min, message), v.maxValue(max, message));
}

/** Milliseconds; bounded by what timers take. `min` is 1 where 0 has no meaning. */
export function milliseconds(min: 0 | 1 = 0) {
  return whole(min, MAX_DELAY_MS);
}

/** A finite number of `min` or more. */
export function quantity(min: number) {
  const message = wanted(`a number of ${min} or more`);
  return v.pipe(v.number(message), v.finite(message), v.minValue(min, message));
}

export const flag = v.boolean(wanted("true or false"));

/** Text with something in it. Numbers get a hint: YAML reads an unquoted `7` as one. */
export function text(what = "text that is not empty") {
  const message = wanted(what, (input) => (typeof input === "number" ? "put it in quotes" : undefined));
  return v.pipe(
    v.string(message),
    v.nonEmpty(message),
    v.check((s) => s.trim() !== "", message),
    // Names end up in log lines, headers and labels: no control character may ride along.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    v.check((s) => !/[\u0000-\u001f\u007f]/.test(s), wanted(`${what} without control characters`)),
  );
}

const LABEL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * A name that is shown to clients and used in routes (`x-router-prefill`, `/workers/{name}`): no colon or slash, so it can
 * neither be an address nor break a path or a header (contract section 7: names, never addresses).
 */
export const label = v.pipe(
  v.string(wanted("a name")),
  v.regex(
    LABEL,
    wanted('a name of letters, digits, ".", "_" and "-", starting with a letter or digit, at most 128 long'),
  ),
);

/** Name of an environment variable. The value never enters the configuration. */
export const envName = v.pipe(
  v.string(wanted("the name of an environment variable")),
  v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, wanted("the name of an environment variable")),
);

/** An http(s) URL of somebody else's service: no user info, since the configuration holds no secret. */
export function serviceUrl(schemes: readonly string[], example: string) {
  return v.pipe(
    v.string(wanted(`a URL such as ${example}`)),
    v.rawCheck(function checkServiceUrl({ dataset, addIssue }) {
      if (!dataset.typed) return;
      const problem = urlProblem(dataset.value, schemes);
      if (problem !== undefined) addIssue({ message: `wanted a URL such as ${example}, got ${problem}` });
    }),
  );
}

function urlProblem(input: string, schemes: readonly string[]): string | undefined {
  const url = URL.parse(input);
  if (url === null || url.host === "") return show(input);
  // The text is not shown below: it may hold a password.
  if (url.password !== "") return "one with a password in it (name an environment variable instead)";
  if (url.username !== "" && url.protocol.startsWith("http")) return "one with a user in it";
  if (url.protocol.startsWith("http") && (url.search !== "" || url.hash !== ""))
    return "one with a query or a fragment";
  if (!schemes.includes(url.protocol.slice(0, -1))) return `the scheme "${url.protocol.slice(0, -1)}"`;
  return undefined;
}
