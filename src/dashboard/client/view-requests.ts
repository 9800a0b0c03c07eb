import type { RequestRow } from "../update.ts";
import { barsOf, scaleOf } from "./bars.ts";
import { duration, plural, timeOfDay } from "./format.ts";
import { faultyWorker } from "./verdict.ts";
import { barsView } from "./view-bars.ts";
import { h, type VNode } from "./vnode.ts";

export type Filter = "all" | "running" | "failed";

export interface ListChoice {
  filter: Filter;
  /** Part of an id, a worker's name, a model or a code. */
  search: string;
  /** The row that Tab reaches; arrows move it. */
  focused: number | undefined;
}

const FILTERS: readonly [Filter, string][] = [
  ["all", "All"],
  ["running", "Running"],
  ["failed", "Failed"],
];

export function matching(rows: readonly RequestRow[], { filter, search }: ListChoice): RequestRow[] {
  const wanted = search.trim().toLowerCase();
  return rows.filter((row) => {
    if (filter === "running" && row.finished !== undefined) return false;
    if (filter === "failed" && row.failed === undefined) return false;
    if (wanted === "") return true;
    return [row.id, row.prefill, row.decode, row.model, row.code, row.trace, row.client].some((text) =>
      text?.toLowerCase().includes(wanted),
    );
  });
}

/** `now`: the router's clock. */
export function requestsView(rows: readonly RequestRow[], choice: ListChoice, now: number): VNode {
  const shown = matching(rows, choice);
  const elapsed = (row: RequestRow): number => Math.max(0, now - row.at);
  const scale = scaleOf(shown.map((row) => barsOf(row, elapsed(row)).end));
  const focused = shown.some((row) => row.key === choice.focused) ? choice.focused : shown[0]?.key;
  return h("section", { class: "requests", "aria-labelledby": "requests-title", key: "requests" }, [
    h("div", { class: "bar" }, [
      h("h2", { id: "requests-title" }, "Requests"),
      h(
        "div",
        { class: "filters", role: "group", "aria-label": "Which requests" },
        FILTERS.map(([filter, name]) =>
          h(
            "button",
            { type: "button", "data-filter": filter, "aria-pressed": String(filter === choice.filter) },
            name,
          ),
        ),
      ),
      h("label", { class: "search" }, [
        h("span", { class: "hidden" }, "Search by id, worker, model or code"),
        h("input", {
          type: "search",
          id: "search",
          placeholder: "id, worker, model, code",
          autocomplete: "off",
          spellcheck: "false",
        }),
      ]),
      legend(),
    ]),
    h("div", { class: "axis", "aria-hidden": "true" }, [
      h("span", {}, "0"),
      h("span", {}, duration(scale / 2)),
      h("span", {}, duration(scale)),
    ]),
    shown.length === 0
      ? h("p", { class: "empty", key: "empty" }, rows.length === 0 ? "No request has come yet." : "No request fits.")
      : h(
          "ol",
          { id: "rows", key: "rows", "aria-label": plural(shown.length, "request") },
          shown.map((row) => rowView(row, elapsed(row), scale, row.key === focused)),
        ),
  ]);
}

function legend(): VNode {
  const entry = (kind: string, text: string): VNode =>
    h("span", {}, [h("i", { class: `swatch ${kind}` }, kind === "late" ? "◆" : ""), h("span", {}, text)]);
  return h("p", { class: "legend", "aria-hidden": "true" }, [
    entry("prefill", "prefill"),
    entry("tail", "tail"),
    entry("handed", "hand-off"),
    entry("wait", "decode waits"),
    entry("decode", "decode"),
    entry("late", "late failure"),
  ]);
}

/** What was last made of a row that is over: the same node again is not even compared (measured: 400 rows cost 60 ms a time without). */
const made = new WeakMap<RequestRow, { scale: number; reachable: boolean; node: VNode }>();

function rowView(row: RequestRow, elapsed: number, scale: number, reachable: boolean): VNode {
  const before = made.get(row);
  if (before !== undefined && before.scale === scale && before.reachable === reachable) return before.node;
  const node = newRowView(row, elapsed, scale, reachable);
  if (row.finished !== undefined && row.tailOpen === undefined) made.set(row, { scale, reachable, node });
  return node;
}

function newRowView(row: RequestRow, elapsed: number, scale: number, reachable: boolean): VNode {
  const running = row.finished === undefined;
  const took = duration(row.finished ?? elapsed);
  const end = endOf(row);
  const label = `${row.id}, ${timeOfDay(row.at)}, ${row.model}, ${wayOf(row)}, ${running ? "running for" : "took"} ${took}, ${end}`;
  return h("li", { key: row.key }, [
    h(
      "button",
      {
        type: "button",
        class: "row",
        "data-key": row.key,
        "data-failed": row.failed !== undefined,
        "data-running": running,
        "aria-label": label,
        "aria-haspopup": "dialog",
        tabindex: reachable ? 0 : -1,
      },
      [
        h("span", { class: "time" }, timeOfDay(row.at)),
        h("span", { class: "id" }, row.id),
        h("span", { class: "way" }, wayOf(row)),
        barsView(row, elapsed, scale),
        h("span", { class: "took" }, took),
        h("span", { class: "end" }, end),
      ],
    ),
  ]);
}

export function wayOf(row: RequestRow): string {
  if (row.prefill !== "" && row.decode !== "") return `${row.prefill} → ${row.decode}`;
  return row.prefill || row.decode || row.route;
}

/** How it ended, in a few words. */
export function endOf(row: RequestRow): string {
  if (row.finished === undefined) return row.firstToken === undefined ? "waiting" : "streaming";
  if (row.failed !== undefined) {
    const code = row.late !== undefined ? `late ${row.late}` : (row.code ?? `${row.status}`);
    const worker = faultyWorker(row);
    return worker === "" ? code : `${code}, ${worker}`;
  }
  if (row.outcome === "client_cancel") return "client left";
  return row.code === undefined ? String(row.status) : `${row.status} ${row.code}`;
}
