import { Connection } from "./connection.ts";
import { emptyState, newestFirst, take } from "./state.ts";
import { isDark, startTheme, switchTheme } from "./theme.ts";
import { type Level, verdictOf } from "./verdict.ts";
import { detailView } from "./view-detail.ts";
import { failuresView } from "./view-failures.ts";
import { fleetView } from "./view-fleet.ts";
import { keyView } from "./view-key.ts";
import { numbersView } from "./view-numbers.ts";
import { type Filter, type ListChoice, requestsView } from "./view-requests.ts";
import { verdictView } from "./view-verdict.ts";
import { h, patch } from "./vnode.ts";

/** Running bars grow between two events. */
const REDRAW_MS = 250;
/** Otherwise what changes with time alone changes with the events, two a second, unless none comes. */
const SILENT_MS = 1_000;
const COLORS: Record<Level, string> = { good: "2fae74", warn: "d99a1c", bad: "e5484d", unknown: "8b93a7" };

const main = byId("main");
const tools = byId("tools");
const dialog = byId("detail") as HTMLDialogElement;
const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]")!;

let state = emptyState();
const choice: ListChoice = { filter: "all", search: "", focused: undefined };
let keyForm: "hidden" | "wanted" | "wrong" = "hidden";
/** While somebody reads, nothing moves: no stream is open, and time stands still since then. 0 = not paused. */
let pausedAt = 0;
let open: { key: number | undefined; id: string } | undefined;
let iconOf: Level | undefined;

const connection = new Connection({
  update(update) {
    if (update.router !== undefined) keyForm = "hidden";
    take(state, update, Date.now());
    openFromAddress();
    render();
  },
  keyNeeded(wrong) {
    keyForm = wrong ? "wrong" : "wanted";
    state = emptyState();
    render();
    byId("key").focus();
  },
  trouble() {
    render();
  },
});

startTheme();
render();
connection.open();
setInterval(redraw, REDRAW_MS);
document.addEventListener("visibilitychange", lookOrLookAway);
document.addEventListener("click", clicked);
document.addEventListener("input", typed);
document.addEventListener("submit", submitted);
document.addEventListener("keydown", keyPressed);
dialog.addEventListener("close", closed);
addEventListener("hashchange", openFromAddress);

function render(): void {
  const now = pausedAt || Date.now();
  const routerNow = now + state.clockOffset;
  const keyed = connection.hasKey && keyForm === "hidden";
  patch(tools, [
    keyForm === "hidden" &&
      h(
        "button",
        { type: "button", "data-tool": "pause", "aria-pressed": String(pausedAt > 0), key: "pause", title: "Key: p" },
        "Pause",
      ),
    h("button", { type: "button", "data-tool": "theme", key: "theme" }, isDark() ? "Light" : "Dark"),
    keyed && h("button", { type: "button", "data-tool": "key", key: "key" }, "Forget key"),
  ]);
  if (keyForm !== "hidden") {
    show("unknown", "Key wanted");
    patch(main, [keyView(keyForm === "wrong")]);
    return;
  }
  const verdict = verdictOf(state, now);
  show(verdict.level, verdict.title);
  const rows = newestFirst(state);
  patch(main, [
    verdictView(verdict, state, now),
    numbersView(state, rows),
    h("div", { class: "two", key: "two" }, [fleetView(state, rows, routerNow), failuresView(rows, routerNow)]),
    requestsView(rows, choice, routerNow),
  ]);
  if (open !== undefined) patch(dialog, detailView(rowOfOpen(), open.id, routerNow));
}

function redraw(): void {
  if (pausedAt > 0 || document.hidden) return;
  const silent = Date.now() - state.heardAt > SILENT_MS;
  if (silent || [...state.requests.values()].some((row) => row.finished === undefined)) render();
}

function show(level: Level, title: string): void {
  document.title = `${title} – prefill-router`;
  if (iconOf === level) return;
  iconOf = level;
  icon.href = icon.href.replace(/%23[0-9a-f]{6}/, `%23${COLORS[level]}`);
}

function lookOrLookAway(): void {
  if (document.hidden) connection.close();
  else if (keyForm === "hidden" && pausedAt === 0) connection.open();
}

function clicked(event: MouseEvent): void {
  const target = event.target as Element;
  if (target === dialog || target.closest("[data-close]") !== null) dialog.close();
  const { tool, filter, key } = target.closest<HTMLElement>("[data-tool], [data-filter], [data-key]")?.dataset ?? {};
  if (tool === "pause") switchPause();
  else if (tool === "theme") switchTheme();
  else if (tool === "key") connection.forgetKey();
  else if (filter !== undefined) choice.filter = filter as Filter;
  else if (key !== undefined) openDetail(Number(key));
  else return;
  render();
}

function typed(event: Event): void {
  const target = event.target as HTMLInputElement;
  if (target.id !== "search") return;
  choice.search = target.value;
  render();
}

function submitted(event: SubmitEvent): void {
  event.preventDefault();
  const input = byId("key") as HTMLInputElement;
  if (input.value === "") return;
  connection.useKey(input.value);
  input.value = "";
}

function switchPause(): void {
  pausedAt = pausedAt === 0 ? Date.now() : 0;
  if (pausedAt > 0) connection.close();
  else connection.open();
}

function openDetail(key: number): void {
  const row = state.requests.get(key);
  if (row === undefined) return;
  choice.focused = key;
  open = { key, id: row.id };
  history.replaceState(null, "", `#${encodeURIComponent(row.id)}`);
  if (!dialog.open) dialog.showModal();
}

/** `/#req-…` opens that request: an address that can be sent to a colleague. */
function openFromAddress(): void {
  const id = decodeURIComponent(location.hash.slice(1));
  if (id === "" || open?.id === id || state.heardAt === 0) return;
  open = { key: newestFirst(state).find((row) => row.id === id)?.key, id };
  if (!dialog.open) dialog.showModal();
  render();
}

function rowOfOpen() {
  return open?.key === undefined ? undefined : state.requests.get(open.key);
}

function closed(): void {
  const key = open?.key;
  open = undefined;
  history.replaceState(null, "", location.pathname + location.search);
  if (key !== undefined) rowButton(key)?.focus();
}

function keyPressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const target = event.target as HTMLElement;
  if (target.localName === "input") {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  } else if (event.key === "p") {
    switchPause();
    render();
  } else if (target.classList.contains("row")) moveFrom(target, event);
}

function moveFrom(row: HTMLElement, event: KeyboardEvent): void {
  const rows = [...document.querySelectorAll<HTMLElement>("#rows .row")];
  const at = rows.indexOf(row);
  const next: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    PageDown: at + 10,
    PageUp: at - 10,
    Home: 0,
    End: rows.length - 1,
  };
  const place = next[event.key];
  if (place === undefined) return;
  event.preventDefault();
  const wanted = rows[Math.min(rows.length - 1, Math.max(0, place))]!;
  choice.focused = Number(wanted.dataset.key);
  render();
  wanted.focus();
}

function rowButton(key: number): HTMLElement | null {
  return document.querySelector(`#rows [data-key="${key}"]`);
}

function byId(id: string): HTMLElement {
  return document.getElementById(id)!;
}
