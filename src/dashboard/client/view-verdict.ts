import { span } from "./format.ts";
import type { State } from "./state.ts";
import { sinceText, type Verdict } from "./verdict.ts";
import { h, type VNode } from "./vnode.ts";

const MARKS = { good: "✓", warn: "!", bad: "✕", unknown: "?" } as const;

export function verdictView(verdict: Verdict, state: State, now: number): VNode {
  const routerNow = now + state.clockOffset;
  const started = state.router?.startedAt ?? 0;
  return h("section", { class: "verdict", "data-level": verdict.level, "aria-label": "State", key: "verdict" }, [
    h("div", { class: "verdict-title", role: "status" }, [
      h("span", { class: "mark", "aria-hidden": "true" }, MARKS[verdict.level]),
      h("h2", {}, verdict.title),
    ]),
    h(
      "ul",
      { class: "findings" },
      verdict.findings.map(({ level, text, since }) =>
        h("li", { "data-level": level }, [
          h("span", {}, text),
          h("span", { class: "since" }, sinceText(since, routerNow)),
        ]),
      ),
    ),
    started > 0 && h("p", { class: "uptime" }, `up ${span(routerNow - started)}`),
  ]);
}
