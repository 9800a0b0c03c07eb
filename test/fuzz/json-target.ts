import { JsonError } from "../../src/json/json-error.ts";
import { scanObject, scanValue } from "../../src/json/scan.ts";
import { splice } from "../../src/json/splice.ts";
import { setAt } from "../../src/json/text.ts";
import { answerBody, apis, requestBody } from "../faults/streams.ts";
import { texts } from "./mutate.ts";
import { check, type Target } from "./target.ts";

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const PATHS = [["model"], ["usage", "prompt_tokens_details", "cached_tokens"], ["choices", 0, "index"], ["a", "b"]];

/** The scanner takes exactly what `JSON.parse` takes, and an edited text parses as the edited object. */
export const jsonTarget: Target = {
  name: "json",
  seeds: texts(
    ...apis.flatMap((api) => [requestBody(api, true), answerBody(api)]),
    '{"model":"m","messages":[{"role":"user","content":"a\\u00e9\\\\\\"\\n"}],"seed":9223372036854775807,"x":[1e5,-0.0,null,true]}',
    ' { "a" : { "b" : [ ] , "c" : "\\ud83d" } , "a" : 2 }\r\n',
    "[[[[]]]]",
  ),
  words: texts(
    ...[
      '"',
      "\\",
      "\\u",
      "\\u0000",
      "\\ud800",
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      "null",
      "true",
      "false",
      "-",
      "0",
      "1e9",
      ".",
    ],
    ...[
      "\u0000",
      "\u2028",
      "\ufeff",
      " ",
      "\t",
      "\n",
      "é",
      "👩‍🚀",
      '"model"',
      '"__proto__":1,',
      '"\\u006dodel":',
      "{}",
      "[]",
    ],
  ),
  run(input, random) {
    const text = decoder.decode(input);
    const value = parsed(text);
    let doc: ReturnType<typeof scanObject>;
    try {
      doc = scanObject(text);
    } catch (error) {
      check(error instanceof JsonError, `not a JsonError: ${error}`);
      check(!isObject(value), "refused a text that is an object");
      check(setAt(text, ["a"], "1") === text || value !== undefined, "edited a text that is not JSON");
      return;
    }
    check(isObject(value), "accepted a text that is no object");
    check(new Set(doc.members.map(({ key }) => key)).size === keys(value).length, "other keys than JSON.parse");
    const span = scanValue(text);
    check(text.slice(span.start, span.end).startsWith("{"), "the value does not begin where it should");

    const key = random.next() < 0.7 && doc.members.length > 0 ? random.pick(doc.members).key : "new";
    const drop = random.next() < 0.5 && doc.members.length > 0 ? [random.pick(doc.members).key] : [];
    const out = splice(doc, { drop, set: Object.fromEntries([[key, "[1]"]]) });
    const edited = parsed(out);
    check(isObject(edited), "an edited object is none");
    for (const name of keys(value)) {
      if (name === key || drop.includes(name)) continue;
      check(same(edited, value, name), `"${name}" has changed`);
    }
    for (const name of drop) check(name === key || !Object.hasOwn(edited, name), `"${name}" is still there`);
    check(JSON.stringify(edited[key]) === "[1]", "the set member is not there");
    for (const path of PATHS) check(parsed(setAt(text, path, "7")) !== undefined, `setAt ${path} broke the text`);
  },
};

type Members = Record<string, unknown>;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `JSON.parse` makes `__proto__` an own key. */
function keys(value: Members): string[] {
  return Object.getOwnPropertyNames(value);
}

function same(a: Members, b: Members, key: string): boolean {
  const of = (object: Members) => JSON.stringify(Object.getOwnPropertyDescriptor(object, key)?.value);
  return of(a) === of(b);
}
