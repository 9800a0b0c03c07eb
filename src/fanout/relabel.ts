import { findMember, rawValue } from "../json/member.ts";
import { type JsonObject, scanArrayAt, scanObject } from "../json/scan.ts";
import { splice } from "../json/splice.ts";

/** What all chunks of one answer have in common, as JSON text. */
export interface Identity {
  id: string | undefined;
  created: string | undefined;
  model: string | undefined;
}

export function identityOf(doc: JsonObject): Identity {
  return { id: rawValue(doc, "id"), created: rawValue(doc, "created"), model: rawValue(doc, "model") };
}

/** The elements of `choices`, each with `index` set: the choices of part `index`. JSON texts; empty when there are none. */
export function choicesAs(doc: JsonObject, index: number): string[] {
  const member = findMember(doc, "choices");
  if (member === undefined || doc.text[member.valueStart] !== "[") return [];
  const { text } = doc;
  return scanArrayAt(text, member.valueStart).map(({ start, end }) => withIndex(text.slice(start, end), index));
}

/** An object's text with `index` set; a text that is no object as it is. */
export function withIndex(text: string, index: number): string {
  if (!text.startsWith("{")) return text;
  const doc = scanObject(text, { maxMembers: Number.POSITIVE_INFINITY });
  const wanted = String(index);
  return rawValue(doc, "index") === wanted ? text : splice(doc, { set: { index: wanted } });
}

/**
 * A chunk of one part as a chunk of the whole: the answer's own id, time and model where the part has others, its choices under the part's
 * index. Every other byte stays.
 */
export function relabel(doc: JsonObject, index: number, identity: Identity): string {
  const own = identityOf(doc);
  const choices = choicesAs(doc, index);
  return splice(doc, {
    set: {
      id: changed(own.id, identity.id),
      created: changed(own.created, identity.created),
      model: changed(own.model, identity.model),
      choices: choices.length > 0 && index > 0 ? `[${choices.join(",")}]` : undefined,
    },
  });
}

/** Undefined, which leaves the member alone, where there is none or it is right. */
function changed(own: string | undefined, wanted: string | undefined): string | undefined {
  return own === undefined || own === wanted ? undefined : wanted;
}
