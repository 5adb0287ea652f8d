import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { median, significant } from './figures.ts';
import type { Results } from './results.ts';
import { cellsInTurn } from './rounds.ts';
import { TITLES } from './targets/target.ts';

/** Colours for light and dark pages: background and text change together. */
const STYLE = `<style>
.page { fill: #ffffff } text { fill: #1f2328 }
@media (prefers-color-scheme: dark) { .page { fill: #0d1117 } text { fill: #e6edf3 } }
</style><rect class="page" width="100%" height="100%" rx="6"/>`;

const FONT_SIZE = 13;
const CONFIG = {
  background: 'transparent',
  padding: 16,
  font: 'system-ui, sans-serif',
  view: { stroke: null },
  title: { fontSize: FONT_SIZE + 1 },
  text: { fontSize: FONT_SIZE },
  legend: { labelFontSize: FONT_SIZE },
  axis: {
    ...{ domainColor: '#8c959f', tickColor: '#8c959f', gridColor: '#8c959f', gridOpacity: 0.3 },
    ...{ labelFontSize: FONT_SIZE, titleFontSize: FONT_SIZE, titleFontWeight: 'normal' },
  },
};
const TARGET_COLORS = {
  service: '#1a7f64',
  'service-redis': '#6ab7a0',
  fastify: '#b35900',
  nginx: '#4477cc',
  'nginx-redis': '#93b1e6',
  limit: '#8c959f',
};
const color = {
  field: 'target',
  type: 'nominal',
  legend: null,
  scale: {
    domain: Object.keys(TARGET_COLORS).map((name) => TITLES[name as keyof typeof TITLES]),
    range: Object.values(TARGET_COLORS),
  },
} as const;

/** Plots CPU time a request as bars, for GET by id and batches of 1000. Returns SVG. */
export function plotProcessorTime(results: Results): Promise<string> {
  const panel = (scenario: string, title: string): object => ({
    title,
    width: 260,
    height: { step: 24 },
    data: {
      values: cellsInTurn(results.cells, scenario)
        .filter((cell) => cell.target in TARGET_COLORS)
        .map(({ target, rounds }) => {
          const times = rounds.map(({ processorUs }) => processorUs);
          return {
            target: TITLES[target as keyof typeof TITLES],
            us: median(times),
            label: significant(median(times)),
          };
        }),
    },
    encoding: {
      y: {
        field: 'target',
        type: 'nominal',
        sort: Object.keys(TARGET_COLORS).map((name) => TITLES[name as keyof typeof TITLES]),
        title: null,
        // without a canvas, widths of texts are overestimated by half
        axis: { labelLimit: 400, maxExtent: 170, domain: false, ticks: false, labelPadding: 6 },
      },
      x: {
        field: 'us',
        type: 'quantitative',
        title: 'µs of CPU time a request',
        axis: { tickCount: 4 },
      },
    },
    layer: [
      { mark: { type: 'bar', cornerRadiusEnd: 2 }, encoding: { color } },
      { mark: { type: 'text', align: 'left', dx: 4 }, encoding: { text: { field: 'label' } } },
    ],
  });
  return draw({
    hconcat: [panel('get', 'GET by id'), panel('batch-1000', 'Batch of 1000')],
    // aligns the plots, with the second's names between them
    bounds: 'flush',
    spacing: 225,
    config: CONFIG,
  } as unknown as TopLevelSpec);
}

/** Plots the 99th percentile of latency at fixed rates as lines. Returns SVG. */
export function plotSweep(results: Results): Promise<string> {
  const panel = (scenario: string, title: string): object => ({
    title,
    width: 330,
    height: 220,
    data: {
      values: results.sweep
        .filter((point) => point.scenario === scenario)
        .map(({ target, perSecond, p99Us }) => ({
          target: TITLES[target as keyof typeof TITLES],
          perSecond,
          ms: p99Us / 1000,
        })),
    },
    mark: { type: 'line', point: true },
    encoding: {
      x: { field: 'perSecond', type: 'quantitative', scale: { type: 'log' }, title: 'requests due a second' },
      y: { field: 'ms', type: 'quantitative', scale: { type: 'log' }, title: 'p99 latency, ms' },
      color: { ...color, legend: { title: null, orient: 'bottom', labelLimit: 400, columns: 3 } },
    },
  });
  return draw({
    hconcat: [panel('get', 'GET by id, open loop'), panel('batch-1000', 'Batch of 1000, open loop')],
    spacing: 40,
    config: CONFIG,
  } as unknown as TopLevelSpec);
}

async function draw(spec: TopLevelSpec): Promise<string> {
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  const svg = await view.toSVG();
  view.finalize();
  return svg.replace(/(<svg[^>]*>)/, `$1${STYLE}`);
}
