import type { RequestRow } from "../update.ts";
import { barsOf, type Piece } from "./bars.ts";
import { h, type VNode } from "./vnode.ts";

/** Both lanes of a request on a scale of `scale` milliseconds. What is beyond it is cut off with a mark. */
export function barsView(row: RequestRow, elapsed: number, scale: number): VNode {
  const bars = barsOf(row, elapsed);
  const at = (ms: number): string => `${Math.min(100, (100 * ms) / scale).toFixed(2)}%`;
  const piece = (lane: string, { kind, from, to }: Piece): VNode =>
    h("i", {
      class: `piece ${kind}`,
      "data-lane": lane,
      "data-live": to === elapsed,
      style: { left: at(from), width: width(from, to, scale) },
    });
  const { broken, handoff } = bars;
  const brokenIn = (lane: string): VNode | false =>
    broken !== undefined &&
    (broken.lane === lane || (broken.lane === "both" && lane === "decode")) &&
    h("b", { class: broken.late ? "broken late" : "broken", style: { left: at(broken.at) } }, broken.late ? "◆" : "✕");
  return h("span", { class: "bars", "aria-hidden": "true" }, [
    h("i", { class: "whole", style: { width: at(row.finished ?? elapsed) } }),
    h("span", { class: "lane" }, [...bars.prefill.map((part) => piece("prefill", part)), brokenIn("prefill")]),
    h("span", { class: "lane" }, [...bars.decode.map((part) => piece("decode", part)), brokenIn("decode")]),
    handoff !== undefined && h("i", { class: "handoff", style: { left: at(handoff) } }),
    bars.end > scale * 1.001 && h("b", { class: "beyond" }, "›"),
  ]);
}

function width(from: number, to: number, scale: number): string {
  const left = Math.min(100, (100 * from) / scale);
  const right = Math.min(100, (100 * to) / scale);
  return `max(2px, ${Math.max(0, right - left).toFixed(2)}%)`;
}
