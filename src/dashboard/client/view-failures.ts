import type { RequestRow } from "../update.ts";
import { plural, span, timeOfDay } from "./format.ts";
import { faultyWorker } from "./verdict.ts";
import { h, type VNode } from "./vnode.ts";

const SHOWN = 8;

const COLUMNS = [
  ["When", "when"],
  ["Code", "code"],
  ["Stage", "stage"],
  ["Worker", "worker-name"],
  ["Client got", "told"],
  ["Request", "request"],
] as const;

/** The last failing requests: code, stage, worker. `now`: the router's clock. */
export function failuresView(rows: readonly RequestRow[], now: number): VNode {
  const failed = rows.filter((row) => row.failed !== undefined);
  return h("section", { class: "failed-list", "aria-labelledby": "failures-title", key: "failures" }, [
    h("h2", { id: "failures-title" }, "Last failures"),
    failed.length === 0
      ? h("p", { class: "empty", key: "none" }, `None of the last ${plural(rows.length, "request")} failed.`)
      : h("div", { class: "scroll", key: "some" }, [table(failed, now)]),
  ]);
}

function table(failed: readonly RequestRow[], now: number): VNode {
  return h("table", {}, [
    h("thead", {}, [
      h(
        "tr",
        {},
        COLUMNS.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)),
      ),
    ]),
    h(
      "tbody",
      {},
      failed.slice(0, SHOWN).map((row) => line(row, now)),
    ),
  ]);
}

function line(row: RequestRow, now: number): VNode {
  const end = row.at + (row.finished ?? 0);
  return h("tr", { key: row.key }, [
    h("td", { class: "when" }, [h("time", {}, timeOfDay(end)), h("span", { class: "note" }, `${span(now - end)} ago`)]),
    h("td", { class: "code" }, row.code ?? (row.late === undefined ? String(row.status) : `tail: ${row.late}`)),
    h(
      "td",
      { class: "stage" },
      row.failed === "late" ? "prefill, late" : row.failed === "handoff" ? "hand-off" : (row.failed ?? ""),
    ),
    h("td", {}, faultyWorker(row) || "–"),
    h("td", { class: "told" }, toldClient(row)),
    h("td", {}, [
      h("button", { type: "button", class: "link", "data-key": row.key, "aria-haspopup": "dialog" }, row.id),
    ]),
  ]);
}

/** A failure that no client heard of is still one, and the difference matters at night. */
export function toldClient(row: RequestRow): string {
  if (row.errorFrame) return "error frame";
  return row.status >= 400 ? String(row.status) : `nothing, ${row.status}`;
}
