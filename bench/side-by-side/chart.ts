import { FIGURES, type Figure } from "./figures.ts";
import { mediansOf, type RunResults } from "./results.ts";

/** The figures that the chart shows, one panel each. */
const PANELS = ["S1 CPU", "S2 CPU", "S3 CPU", "S4 CPU", "fleet CPU", "S3 memory"];
const COLUMNS = 3;
const PANEL = { width: 290, head: 34, row: 22, gap: 26 };
const LABEL = 96;
const VALUE = 44;
const BAR = PANEL.width - LABEL - VALUE;

/** Colours are classes, so that the picture fits a light and a dark page. */
const STYLE = `text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-weight:600}.u{fill:#57606a;font-size:11px}.floor{fill:#8c959f}.yardstick{fill:#bf8700}.ours{fill:#1a7f37}.peer{fill:#0969da}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.u{fill:#9198a1}.floor{fill:#656c76}.yardstick{fill:#d29922}.ours{fill:#3fb950}.peer{fill:#4493f8}}`;

/** Bars of the medians of a run as SVG text; lower is better in each panel. */
export function drawChart(results: RunResults): string {
  const medians = mediansOf(results.measurements);
  const kinds = new Map(results.measurements.map(({ router, kind }) => [router, kind]));
  const figures = PANELS.map((name) => FIGURES.find((figure) => figure.name === name)).filter(
    (figure): figure is Figure => figure !== undefined && medians[figure.name] !== undefined,
  );
  const most = Math.max(1, ...figures.map(({ name }) => Object.keys(medians[name] ?? {}).length));
  const height = PANEL.head + most * PANEL.row + PANEL.gap;
  const panels = figures.map((figure, index) => {
    const rows = Object.entries(medians[figure.name] ?? {});
    const scale = Math.max(...rows.map(([, value]) => value));
    const bars = rows.map(([router, value], row) => {
      const y = PANEL.head + row * PANEL.row;
      const width = Math.max(1, (BAR * value) / scale);
      return `<text x="${LABEL - 6}" y="${y + 13}" text-anchor="end">${router}</text><rect class="${kinds.get(router)}" x="${LABEL}" y="${y + 2}" width="${width.toFixed(1)}" height="15" rx="2"/><text x="${(LABEL + width + 5).toFixed(1)}" y="${y + 13}">${value.toFixed(figure.digits)}</text>`;
    });
    const x = (index % COLUMNS) * (PANEL.width + PANEL.gap);
    const y = Math.floor(index / COLUMNS) * height;
    return `<g transform="translate(${x} ${y})"><text class="t" y="12">${figure.title}</text><text class="u" y="27">${figure.unit}</text>${bars.join("")}</g>`;
  });
  const width = COLUMNS * (PANEL.width + PANEL.gap);
  const rows = Math.ceil(figures.length / COLUMNS);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -6 ${width + 8} ${rows * height + 6}" width="${width}" role="img" aria-label="CPU and memory of routers, lower is better"><style>${STYLE}</style>${panels.join("\n")}</svg>\n`;
}
