import type { RequestRow } from "../update.ts";
import { barsOf } from "./bars.ts";
import { count, duration, timeOfDay } from "./format.ts";
import { barsView } from "./view-bars.ts";
import { toldClient } from "./view-failures.ts";
import { endOf, wayOf } from "./view-requests.ts";
import { h, type VNode } from "./vnode.ts";

const STEPS: readonly [keyof RequestRow & string, string][] = [
  ["admitted", "admitted"],
  ["prefillSent", "prefill leg sent"],
  ["prefillDone", "prefill leg ended"],
  ["decodeSent", "decode leg sent"],
  ["decodeHeaders", "decode's headers"],
  ["firstToken", "first token, status committed"],
  ["finished", "response over"],
  ["tailEnded", "prefill tail over"],
];

/** One request in full. `now`: the router's clock. */
export function detailView(row: RequestRow | undefined, id: string, now: number): VNode[] {
  const head = h("div", { class: "detail-head" }, [
    h("h2", { id: "detail-title" }, row?.id ?? id),
    h("button", { type: "button", class: "close", "data-close": true, "aria-label": "Close" }, "✕"),
  ]);
  if (row === undefined) {
    return [
      head,
      h("p", { class: "empty" }, "The router does not remember this request: it keeps the last few hundred."),
    ];
  }
  const elapsed = Math.max(0, now - row.at);
  const { end } = barsOf(row, elapsed);
  return [
    head,
    h("p", { class: "detail-end", "data-failed": row.failed !== undefined }, [
      h("strong", {}, endOf(row)),
      h("span", {}, ` ${wayOf(row)}, ${duration(row.finished ?? elapsed)}`),
    ]),
    barsView(row, elapsed, end * 1.02 || 1),
    h("div", { class: "axis", "aria-hidden": "true" }, [h("span", {}, "0"), h("span", {}, duration(end))]),
    h("div", { class: "detail-columns" }, [steps(row), facts(row)]),
  ];
}

function steps(row: RequestRow): VNode {
  const told = STEPS.flatMap(([key, name]) => {
    const at = row[key];
    return typeof at === "number" ? [{ name, at }] : [];
  }).sort((a, b) => a.at - b.at);
  return h("table", { class: "steps" }, [
    h("caption", {}, `Began ${timeOfDay(row.at)}`),
    h(
      "tbody",
      {},
      told.map(({ name, at }, i) =>
        h("tr", {}, [
          h("th", { scope: "row" }, name),
          h("td", {}, duration(at)),
          h("td", { class: "note" }, i === 0 ? "" : `+${duration(at - told[i - 1]!.at)}`),
        ]),
      ),
    ),
  ]);
}

function facts(row: RequestRow): VNode {
  const late =
    row.late && `${row.late}, ${row.lateWhen === "after_end" ? "after the answer was over" : "while decode streamed"}`;
  const list: [string, string | number | undefined][] = [
    ["Outcome", row.outcome || "running"],
    ["Code", row.code],
    ["Stage", row.stage],
    ["Late failure", late],
    ["Client got", row.finished === undefined ? undefined : row.failed === undefined ? row.status : toldClient(row)],
    ["Attempts", row.attempts],
    ["Route", `${row.route}${row.stream ? ", stream" : ""}`],
    ["Model", row.model],
    ["Pool", row.pool],
    ["Path", row.path],
    ["Prefill", row.prefill],
    ["Decode", row.decode],
    ["Client", row.client],
    ["Prompt tokens", promptOf(row)],
    ["Answer tokens", row.completionTokens && count(row.completionTokens)],
    ["Bytes in, out", `${count(row.bytesIn)}, ${count(row.bytesOut)}`],
    ["Waited for tail", row.settleWait && duration(row.settleWait)],
    ["Hand-off", row.handoffReleased ? "released unused" : undefined],
    ["Trace", row.trace],
  ];
  return h(
    "dl",
    {},
    list.flatMap(([name, value]) =>
      value === undefined || value === "" || value === 0 ? [] : [h("dt", {}, name), h("dd", {}, String(value))],
    ),
  );
}

/** As an engine told it, else as the router guessed it. */
function promptOf({ promptTokens, promptEstimate, cachedTokens }: RequestRow): string | undefined {
  const guess = promptEstimate === undefined ? undefined : `about ${count(promptEstimate)}`;
  const told = promptTokens === undefined ? guess : count(promptTokens);
  return told === undefined || cachedTokens === undefined ? told : `${told}, ${count(cachedTokens)} cached`;
}
