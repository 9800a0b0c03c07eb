import * as v from "valibot";
import { workerObject } from "../config/worker.ts";
import { urlHost } from "../config/worker-url.ts";
import { type Mark, MOST_MARKS, MOST_URL } from "./marks.ts";

/** Characters of one record: with its seal clearly below what stores keep (`MOST_TEXT`; a Durable Object counts bytes). */
const RECORD_TEXT = 100_000;
/** Records of one router and pool: some three thousand marks. An object takes 16 records at once, one of which is the report. */
const MOST_MARK_RECORDS = 8;
/** A worker of which nothing is said. */
const UNSET: Readonly<Record<string, unknown>> = v.parse(workerObject, { url: "http://host" });

export interface MarkRecords {
  /** Lists of marks as text, one a record. */
  texts: string[];
  told: Mark[];
  /** Marks for which there was no room. */
  untold: number;
}

/**
 * Divides marks (the latest first) into records. Drains come before all: each is an order that somebody waits for, and there are few. Then
 * the latest: an old mark is missing only to routers that start later, while a worker that has just come needs its requests now.
 */
export function divideMarks(marks: readonly Mark[]): MarkRecords {
  const records: string[][] = [];
  const told: Mark[] = [];
  let room = 0;
  let untold = 0;
  for (const mark of [...marks.filter(isDrain), ...marks.filter((mark) => !isDrain(mark))]) {
    const text = JSON.stringify(brief(mark));
    if (text.length >= RECORD_TEXT || (mark.url?.length ?? 0) > MOST_URL) {
      untold += 1;
      continue;
    }
    let last = records.at(-1);
    if (last === undefined || text.length >= room || last.length === MOST_MARKS) {
      if (records.length === MOST_MARK_RECORDS) {
        untold += 1;
        continue;
      }
      last = [];
      records.push(last);
      room = RECORD_TEXT;
    }
    // And its comma.
    room -= text.length + 1;
    last.push(text);
    told.push(mark);
  }
  return { texts: records.map((texts) => `[${texts.join(",")}]`), told, untold };
}

/** Hosts have no default, even where one is called like that of `UNSET`. */
function isTold(key: string, value: unknown): boolean {
  return key === "url" || key === "bootstrapHost" || value !== UNSET[key];
}

function isDrain({ what }: Mark): boolean {
  return what === "drain";
}

/** Without what its reader puts in by itself: less than half of a join is left. */
function brief(mark: Mark): unknown {
  if (mark.settings === undefined) return mark;
  const { name: _, bootstrapHost, ...told } = mark.settings;
  const settings: Record<string, unknown> = bootstrapHost === urlHost(told.url) ? told : { ...told, bootstrapHost };
  return {
    ...mark,
    settings: Object.fromEntries(Object.entries(settings).filter(([key, value]) => isTold(key, value))),
  };
}
