/** Plots as plain SVG: no library, the same bytes every time, readable on light and dark pages. */

export interface Line {
  name: string;
  colour: string;
  /** Undefined points are gaps. */
  points: readonly (readonly [x: number, y: number])[];
}

export interface Plot {
  title: string;
  x: { label: string; ticks: readonly (readonly [at: number, text: string])[] };
  y: { label: string; ticks: readonly (readonly [at: number, text: string])[]; log?: boolean };
  lines: readonly Line[];
  /** Stretches of x that are marked. */
  bands?: readonly { from: number; to: number; text: string }[];
}

const WIDTH = 860;
const HEIGHT = 380;
const LEFT = 64;
const RIGHT = 190;
const TOP = 44;
const BOTTOM = 52;

export function svgOf(plot: Plot): string {
  const [x0, x1] = [plot.x.ticks[0]![0], plot.x.ticks.at(-1)![0]];
  const scale = plot.y.log === true ? Math.log10 : (value: number) => value;
  const [y0, y1] = [scale(plot.y.ticks[0]![0]), scale(plot.y.ticks.at(-1)![0])];
  const px = (x: number) => LEFT + ((x - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const py = (y: number) => {
    const at = (scale(y) - y0) / (y1 - y0);
    return HEIGHT - BOTTOM - Math.min(1, Math.max(0, at)) * (HEIGHT - TOP - BOTTOM);
  };
  const parts: string[] = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img">`,
    `<title>${escaped(plot.title)}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(LEFT, 24, plot.title, 'font-size="15" font-weight="600" fill="#1a1a1a"'),
  ];
  for (const { from, to, text: label } of plot.bands ?? []) {
    parts.push(
      `<rect x="${n(px(from))}" y="${TOP}" width="${n(px(to) - px(from))}" height="${HEIGHT - TOP - BOTTOM}" fill="#f3e3d3"/>`,
      text(px(from) + 3, TOP + 13, label, 'fill="#8a5a2b" font-size="11"'),
    );
  }
  for (const [at, label] of plot.y.ticks) {
    parts.push(
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${n(py(at))}" y2="${n(py(at))}" stroke="#dddddd"/>`,
      text(LEFT - 8, py(at) + 4, label, 'text-anchor="end" fill="#555555"'),
    );
  }
  for (const [at, label] of plot.x.ticks) {
    parts.push(text(px(at), HEIGHT - BOTTOM + 18, label, 'text-anchor="middle" fill="#555555"'));
  }
  parts.push(
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, plot.x.label, 'text-anchor="middle" fill="#333333"'),
    text(
      0,
      0,
      plot.y.label,
      `text-anchor="middle" fill="#333333" transform="translate(16 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"`,
    ),
  );
  for (const [index, { name, colour, points }] of plot.lines.entries()) {
    const drawn = points.map(([x, y]) => `${n(px(x))},${n(py(y))}`).join(" ");
    parts.push(
      `<polyline fill="none" stroke="${colour}" stroke-width="1.8" stroke-linejoin="round" points="${drawn}"/>`,
    );
    const y = TOP + 10 + index * 20;
    parts.push(
      `<line x1="${WIDTH - RIGHT + 14}" x2="${WIDTH - RIGHT + 36}" y1="${y}" y2="${y}" stroke="${colour}" stroke-width="3"/>`,
      text(WIDTH - RIGHT + 42, y + 4, name, 'fill="#1a1a1a"'),
    );
  }
  return `${parts.join("\n")}\n</svg>\n`;
}

function text(x: number, y: number, content: string, more: string): string {
  return `<text x="${n(x)}" y="${n(y)}" ${more}>${escaped(content)}</text>`;
}

function n(value: number): string {
  return value.toFixed(1);
}

function escaped(content: string): string {
  return content.replace(/&/g, "&amp;").replace(/</g, "&lt;");
}
