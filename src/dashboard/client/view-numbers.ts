import type { RequestRow } from "../update.ts";
import { count, duration, percent, plural, timeOfDay } from "./format.ts";
import { percentiles } from "./percentiles.ts";
import type { State } from "./state.ts";
import { h, type VNode } from "./vnode.ts";

const WINDOW_MINUTES = 5;
const LEGS = ["router", "prefill", "hand-off", "decode", "late"] as const;

export function numbersView(state: State, rows: readonly RequestRow[]): VNode {
  return h("section", { class: "numbers", "aria-label": "Numbers", key: "numbers" }, [
    h("div", { class: "tiles" }, tiles(state)),
    percentileTable(rows),
    hour(state),
  ]);
}

function tiles(state: State): VNode[] {
  const recent = state.minutes?.counts.slice(-WINDOW_MINUTES) ?? [];
  const requests = sum(recent.map((minute) => minute[0] ?? 0));
  const failed = sum(recent.map((minute) => sum(minute.slice(1))));
  const share = requests === 0 ? "–" : percent(failed / requests);
  return [
    tile("Running", count(state.inProgress), state.queued > 0 ? `${count(state.queued)} waiting` : "none waiting"),
    tile("Requests", count(requests), `in ${WINDOW_MINUTES} min`),
    tile("Failed", count(failed), `${share} in ${WINDOW_MINUTES} min`, failed > 0),
  ];
}

function tile(name: string, value: string, note: string, alarming = false): VNode {
  return h("div", { class: "tile", "data-alarm": alarming }, [
    h("span", { class: "tile-name" }, name),
    h("strong", {}, value),
    h("span", { class: "note" }, note),
  ]);
}

function percentileTable(rows: readonly RequestRow[]): VNode {
  const list = percentiles(rows);
  return h("table", { class: "percentiles" }, [
    h("caption", {}, `Pace of the last ${plural(list[1]?.of ?? 0, "good request")}`),
    h("thead", {}, [
      h(
        "tr",
        {},
        ["", "p50", "p90", "p99"].map((name) => (name === "" ? h("td") : h("th", { scope: "col" }, name))),
      ),
    ]),
    h(
      "tbody",
      {},
      list.map(({ name, meaning, p50, p90, p99 }) =>
        h("tr", {}, [
          h("th", { scope: "row", title: meaning }, name),
          ...[p50, p90, p99].map((ms) => h("td", {}, Number.isNaN(ms) ? "–" : duration(ms))),
        ]),
      ),
    ),
  ]);
}

/** Requests by minute, failures from below in red: when it began is seen at a glance. */
function hour(state: State): VNode {
  const { minutes } = state;
  const counts = minutes?.counts ?? [];
  const most = Math.max(1, ...counts.map((minute) => minute[0] ?? 0));
  const failed = sum(counts.map((minute) => sum(minute.slice(1))));
  const requests = sum(counts.map((minute) => minute[0] ?? 0));
  const legs = LEGS.map((leg, i) => [leg, sum(counts.map((minute) => minute[i + 1] ?? 0))] as const).filter(
    ([, n]) => n > 0,
  );
  const told = `${plural(requests, "request")} in the last hour, ${failed} failed`;
  return h("figure", { class: "hour" }, [
    h("figcaption", {}, [
      h("span", {}, "Last hour"),
      h(
        "span",
        { class: "note" },
        legs.length === 0 ? told : `${told}: ${legs.map(([leg, n]) => `${leg} ${count(n)}`).join(", ")}`,
      ),
    ]),
    h(
      "div",
      { class: "minutes", role: "img", "aria-label": told },
      counts.map((minute, i) => minuteBar(minute, (minutes?.from ?? 0) + i * 60_000, most)),
    ),
    h("div", { class: "hour-axis", "aria-hidden": "true" }, [
      h("span", {}, counts.length > 0 ? timeOfDay(minutes!.from).slice(0, 5) : ""),
      h("span", {}, `up to ${count(most)} a minute`),
      h("span", {}, "now"),
    ]),
  ]);
}

function minuteBar(minute: readonly number[], at: number, most: number): VNode {
  const requests = minute[0] ?? 0;
  const failed = sum(minute.slice(1));
  const why = LEGS.flatMap((leg, i) => (minute[i + 1] ? [`${leg} ${minute[i + 1]}`] : [])).join(", ");
  const title = `${timeOfDay(at).slice(0, 5)}: ${plural(requests, "request")}${failed > 0 ? `, failed: ${why}` : ""}`;
  return h("span", { class: "minute", title }, [
    h("i", { class: "all", style: { height: height(requests, most) } }),
    h("i", { class: "failed", style: { height: height(failed, most) } }),
  ]);
}

/** One of thousands must be seen too. */
function height(n: number, most: number): string {
  return n === 0 ? "0" : `max(3px, ${((100 * n) / most).toFixed(1)}%)`;
}

function sum(values: readonly number[]): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
