import type { Panel, Point } from './dashboard-data.ts';

const [WIDTH, ROW_PX, GAP_PX, LEGEND_ROW_PX] = [1200, 30, 8, 17];
const PALETTE = ['#56a64b', '#e0b400', '#3274d9', '#ff780a', '#e02f44', '#8f3bb8', '#1f9e9e', '#8c959f'];
const THRESHOLDS: Record<string, string> = { green: '#3f8f3a', orange: '#e06c00', red: '#cf222e' };
const UNITS: Record<string, string> = { reqps: 'req/s', s: 's', Bps: 'B/s', none: '' };

const STYLE = `
  body { margin: 0; padding: ${GAP_PX}px; background: #f4f5f5; color: #24292e; font: 12px sans-serif }
  p { margin: 2px 4px 8px; color: #57606a }
  main { display: grid; grid: auto-flow ${ROW_PX}px / repeat(24, minmax(0, 1fr)); gap: ${GAP_PX}px }
  section { overflow: hidden; border: 1px solid #dcdee0; background: #fff; position: relative }
  h2 { margin: 0; padding: 7px 10px; font-size: 12.5px; white-space: nowrap }
  .stat h2 { padding: 7px; letter-spacing: -0.2px }
  .row h2 { padding: 7px 2px; font-size: 14px }
  .row { border: 0; background: none }
  .value { position: absolute; inset: 46px 0 auto; text-align: center; font-size: 26px; font-weight: bold }
  .stat svg { position: absolute; left: 0; bottom: 0 }
  svg { display: block } text { font-size: 11px; fill: #57606a }
  table { width: 100%; padding: 2px 10px; border-spacing: 0 }
  td, th { height: ${LEGEND_ROW_PX}px; padding: 0; font-weight: normal; text-align: right; width: 80px }
  th { color: #57606a } td:first-child { text-align: left; width: auto }
  i { display: inline-block; width: 12px; height: 4px; margin: 0 6px 3px 0 }`;

/** Draws panels in the places that the dashboard gives them. Returns an HTML page. */
export function drawDashboard(panels: Panel[]): string {
  const drawn = panels.map((panel) => {
    const { x, y, w, h } = panel.gridPos;
    const place = `grid-area: ${y + 1} / ${x + 1} / span ${h} / span ${w}`;
    const width = (w * (WIDTH - GAP_PX)) / 24 - GAP_PX - 2;
    const height = h * (ROW_PX + GAP_PX) - GAP_PX - 2;
    const draw = { row: () => ['', ''], stat: drawStat, timeseries: drawTimes }[panel.type]!;
    const [style, body] = draw(panel, width, height);
    return `<section class="${panel.type}" style="${place}; ${style}"><h2>${panel.title}</h2>${body}</section>`;
  });
  return `<!doctype html><meta charset="utf-8"><style>${STYLE}</style>
    <p>Drawn by “npm run build:pictures” with the queries of k8s/monitoring/dashboard.json, from a Prometheus that
    scrapes the demo. Not a screenshot of Grafana. Series that are 0 all the time are left out.</p>
    <main>${drawn.join('')}</main>`;
}

/** Draws the last value over its course. Returns the style and the content of the panel. */
function drawStat({ series, options, fieldConfig: { defaults } }: Panel, width: number): string[] {
  const [{ name, points } = { name: '', points: [] }] = series;
  const last = points.at(-1)?.[1] ?? Number.NaN;
  const steps = defaults.thresholds.steps.filter(({ value }) => value === null || last >= value);
  const color = THRESHOLDS[steps.at(-1)!.color]!;
  const text = format(last, defaults.unit, defaults.decimals);
  const filled = options.colorMode === 'background';
  const max = Math.max(...points.map(([, value]) => value)) || 1;
  const places = points.map(scaleOf(points, { left: 0, right: width, top: 4, bottom: 40 }, max));
  return [
    filled ? `background: ${color}; color: #fff` : `color: ${color}`,
    `<svg width="${width}" height="40">${drawArea(places, 40, filled ? '#fff' : color, 20)}</svg>
      <div class="value">${options.textMode === 'value_and_name' ? `${name}: ${text}` : text}</div>`,
  ];
}

/** Draws lines over time, stacked if the panel is so, above the table of its legend. */
function drawTimes(panel: Panel, width: number, whole: number): string[] {
  const { unit, decimals, custom } = panel.fieldConfig.defaults;
  const moving = panel.series.filter(({ points }) => points.some(([, value]) => value > 0));
  const series = moving.length > 0 ? moving : panel.series;
  const height = whole - 36 - LEGEND_ROW_PX * (series.length + 1);
  const sums = new Map<number, number>();
  const lines = series.map(({ points }) =>
    points.map(([timeS, value]): Point => {
      const sum = custom!.stacking.mode === 'normal' ? (sums.get(timeS) ?? 0) + value : value;
      sums.set(timeS, sum);
      return [timeS, sum];
    }),
  );
  const { step, max } = ticksOf(Math.max(...lines.flat().map(([, value]) => value)) || 1);
  const plot = { left: 66, right: width - 12, top: 6, bottom: height - 20 };
  const scale = scaleOf(lines.flat(), plot, max);
  let svg = '';
  for (let value = 0; value <= max; value += step) {
    const [, y] = scale([0, value]);
    svg += `<path d="M${plot.left} ${y}H${plot.right}" stroke="#e4e7ea"/>
      <text x="60" y="${y + 4}" text-anchor="end">${format(value, unit, decimals)}</text>`;
  }
  for (const timeS of sums.keys()) {
    const [x] = scale([timeS, 0]);
    const time = new Date(1000 * timeS).toISOString().slice(11, 19);
    if (timeS % 30 === 0) svg += `<text x="${x}" y="${height - 5}" text-anchor="middle">${time}</text>`;
  }
  const places = lines.map((line) => line.map(scale));
  // a line that is stacked on others ends its area at the highest of them
  const below = (i: number) => (custom!.stacking.mode === 'normal' && places[i - 1]) || plot.bottom;
  for (const [i, line] of places.entries()) svg += drawArea(line, below(i), PALETTE[i]!, custom!.fillOpacity);
  const legend = series.map(({ name, points }, i) => {
    const values = points.map(([, value]) => value);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const cells = [mean, Math.max(...values)].map((value) => `<td>${format(value, unit, decimals)}</td>`);
    return `<tr><td><i style="background: ${PALETTE[i]}"></i>${name}</td>${cells.join('')}</tr>`;
  });
  const table = `<table><tr><td></td><th>mean</th><th>max</th></tr>${legend.join('')}</table>`;
  return ['', `<svg width="${width}" height="${height}">${svg}</svg>${table}`];
}

/** Returns the function from points to places in a plot. */
function scaleOf(points: Point[], plot: Record<'left' | 'right' | 'top' | 'bottom', number>, max: number) {
  const times = points.map(([timeS]) => timeS);
  const first = Math.min(...times);
  const perSecond = (plot.right - plot.left) / (Math.max(...times) - first);
  return ([timeS, value]: Point): Point => [
    plot.left + perSecond * (timeS - first),
    plot.bottom - ((plot.bottom - plot.top) * value) / max,
  ];
}

/** Draws a line, and the area between it and a lower line or height. */
function drawArea(places: Point[], below: Point[] | number, color: string, opacityPercent: number): string {
  const path = (line: Point[]) => line.map((place) => place.map((px) => px.toFixed(1)).join(' ')).join('L');
  const lower = typeof below === 'number' ? places.map(([x]): Point => [x, below]) : below;
  return `<path d="M${path(places)}" fill="none" stroke="${color}" stroke-width="1.5"/>
    <path d="M${path([...places, ...lower.toReversed()])}" fill="${color}" opacity="${opacityPercent / 100}"/>`;
}

/** Returns the step and the end of an axis with at most four round numbers above 0. */
function ticksOf(largest: number): { step: number; max: number } {
  const power = 10 ** Math.floor(Math.log10(largest / 4));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power * 4 >= largest)!;
  return { step, max: step * Math.ceil(largest / step) };
}

/** Formats a value in the unit of its panel, about as Grafana does. */
function format(value: number, unit: string, decimals = 1): string {
  if (Number.isNaN(value)) return 'no data';
  if (unit === 'percentunit') return `${(100 * value).toFixed(decimals)} %`;
  const prefix = value >= 1000 ? 'k' : unit === 's' && value < 1 ? 'm' : '';
  const scaled = { k: value / 1000, m: value * 1000, '': value }[prefix]!;
  return `${Number(scaled.toPrecision(3))} ${prefix}${UNITS[unit]}`.trim();
}
