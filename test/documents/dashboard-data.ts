import { execFile } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { startOnFreePort } from '../../src/demo/servers/server.ts';
import { read } from './files.ts';

/** Demo that is ready: its addresses, a key, and the program that runs SQL as its owner. */
export interface Demo {
  url: string;
  adminUrl: string;
  key: string;
  sql: string;
}
/** Panel of the dashboard with the values that Prometheus returned for it. */
export interface Panel {
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string; legendFormat: string }[];
  fieldConfig: {
    defaults: {
      unit: string;
      decimals?: number;
      thresholds: { steps: { color: string; value: number | null }[] };
      custom?: { stacking: { mode: string }; fillOpacity: number };
    };
  };
  options: { colorMode?: string; textMode?: string };
  series: { name: string; points: Point[] }[];
}
export type Point = [timeS: number, value: number];

const SECTIONS = 2;
const RANGE_S = 90;
const SCRAPE_S = 1;
/** Grafana's value for a data source with this scrape interval. */
const RATE_INTERVAL_S = 4 * SCRAPE_S;

/** Puts a light load on the demo. Returns the first sections of the dashboard with what a Prometheus has seen of it. */
export async function measure(demo: Demo, prometheus: string): Promise<Panel[]> {
  const server = await startOnFreePort(async (port) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotel-api-pictures-'));
    const static_configs = [{ targets: [new URL(demo.adminUrl).host] }];
    const config = {
      global: { scrape_interval: `${SCRAPE_S}s`, scrape_timeout: `${SCRAPE_S}s` },
      scrape_configs: [{ job_name: 'hotel-api', static_configs }],
    };
    await writeFile(join(folder, 'prometheus.yml'), JSON.stringify(config));
    const listen = `--web.listen-address=127.0.0.1:${port}`;
    return {
      command: [prometheus, '--config.file=prometheus.yml', '--storage.tsdb.path=data', listen],
      ...{ env: {}, cwd: folder, folder, stopSignal: 'SIGTERM', killAfterMs: 5_000 },
    };
  }, /Server is ready to receive web requests/);
  try {
    await putLoad(demo);
    const { panels }: { panels: Panel[] } = JSON.parse(read('k8s/monitoring/dashboard.json'));
    const end = panels.filter(({ type }) => type === 'row')[SECTIONS]!.gridPos.y;
    const shown = panels.filter(({ gridPos }) => gridPos.y < end);
    for (const panel of shown) panel.series = await seriesOf(panel, `http://127.0.0.1:${server.port}`);
    return shown;
  } finally {
    await server.stop();
  }
}

/** Sends 10 to 40 requests a second, of which two in ten get 401 or 404, and changes a hotel every few seconds. */
async function putLoad({ url, key, sql }: Demo): Promise<void> {
  const headers = { 'x-api-key': key };
  const hotels = (await (await fetch(`${url}/hotels`, { headers })).json()) as { id: string }[];
  const send = async (n: number): Promise<void> => {
    const length = 100 * (1 + (Math.floor(n / 10) % 10));
    const channel_ids = Array.from({ length }, (_, i) => `CH${100_000 + ((n + i) % 1000)}`);
    const requests: [path: string, init: RequestInit][] = [
      ['', { headers }],
      [`/${hotels[Math.floor(n / 10) % hotels.length]!.id}`, { headers }],
      ['/channel/batch', { headers, method: 'POST', body: JSON.stringify({ channel_ids }) }],
      ['/unknown', { headers }],
      ['', { headers: { 'x-api-key': 'unknown' } }],
    ];
    const [path, init] = requests[n % 10] ?? [`/channel/${channel_ids[0]}`, { headers }];
    await (await fetch(`${url}/hotels${path}`, init)).arrayBuffer();
  };
  const untilMs = performance.now() + 1000 * (RANGE_S + 2 * RATE_INTERVAL_S);
  const request = async () => {
    for (let tick = 0, sent = 0; performance.now() < untilMs; tick++) {
      const burst = Array.from({ length: 5 + Math.round(3 * Math.sin(tick / 40)) }, () => send(sent++));
      await Promise.all([...burst, sleep(200)]);
    }
  };
  const change = async () => {
    for (let turn = 0; performance.now() < untilMs; turn++) {
      await promisify(execFile)(sql, [
        `update hotels set name = 'Nova ${turn}' where id = '${hotels[0]!.id}'`,
      ]);
      await sleep(3_000);
    }
  };
  await Promise.all([request(), change()]);
}

/** Runs the queries of a panel over the range. Values that are not numbers are left out. */
async function seriesOf({ targets = [] }: Panel, prometheus: string): Promise<Panel['series']> {
  const series: Panel['series'] = [];
  const nowS = Math.floor(Date.now() / 1000);
  const range = { start: String(nowS - RANGE_S), end: String(nowS), step: String(SCRAPE_S) };
  for (const { expr, legendFormat } of targets) {
    const rated = expr.replaceAll('$__rate_interval', `${RATE_INTERVAL_S}s`);
    // the dashboard's value of "All"
    const query = rated.replaceAll(/\$(namespace|instance)/g, '.*');
    const response = await fetch(
      `${prometheus}/api/v1/query_range?${new URLSearchParams({ query, ...range })}`,
    );
    type Result = { metric: Record<string, string>; values: [timeS: number, value: string][] }[];
    const { data } = (await response.json()) as { data: { result: Result } };
    for (const { metric, values } of data.result) {
      const name = legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label) => metric[label] ?? '');
      const points = values.map(([timeS, value]): Point => [timeS, Number(value)]);
      series.push({ name, points: points.filter(([, value]) => Number.isFinite(value)) });
    }
  }
  return series;
}
