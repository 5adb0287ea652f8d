import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { makeKey } from '../../src/auth/key.ts';
import { ROOT, read as readFile } from '../documents/files.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { Client } from '../support/client.ts';
import { freshDatabase } from '../support/database.ts';
import { parseQuery } from '../support/metrics.ts';
import { needs } from '../support/needs.ts';
import { ownProgram } from '../support/own-server.ts';
import { pathOf } from '../support/programs.ts';
import { run } from '../support/run.ts';
import { type Service, startService } from '../support/service.ts';

const FOLDER = `${ROOT}k8s/monitoring/`;
const read = (name: string) => readFile(`k8s/monitoring/${name}`);
const runbook = readFile('docs/operations/runbook.md');

interface Panel {
  type: string;
  title: string;
  targets?: { expr: string }[];
}
interface Dashboard {
  panels: Panel[];
  templating: { list: { name: string; definition?: string }[] };
  annotations: { list: { expr: string }[] };
}
interface Rule {
  record?: string;
  alert?: string;
  expr: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

const dashboard: Dashboard = JSON.parse(read('dashboard.json'));
const panels = dashboard.panels.filter(({ type }) => type !== 'row');
const rules: Rule[] = parse(read('rules.yaml')).groups.flatMap(({ rules }: { rules: Rule[] }) => rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);

/** Metrics that the service does not export: of Prometheus itself, and of kube-state-metrics. */
const FROM_ELSEWHERE = [
  'up',
  'kube_horizontalpodautoscaler_spec_max_replicas',
  'kube_horizontalpodautoscaler_status_current_replicas',
  'kube_job_failed',
];

/** Values that Grafana inserts by default; rates cover several scrapes. */
const filledIn = (expr: string) =>
  expr.replaceAll(/\$(namespace|instance)/g, '.*').replaceAll('$__rate_interval', '4s');
const shown: [where: string, expr: string][] = [
  ...panels.flatMap(({ title, targets }) =>
    targets!.map(({ expr }): [string, string] => [`panel ${title}`, filledIn(expr)]),
  ),
  ...dashboard.annotations.list.map(({ expr }): [string, string] => ['annotation', filledIn(expr)]),
];
const queries = [...shown, ...rules.map((rule): [string, string] => [rule.alert ?? rule.record!, rule.expr])];

await needs('prometheus', 'promtool');
const [prometheus, promtool] = await Promise.all([pathOf('prometheus'), pathOf('promtool')]);

it('the dashboard is filtered in every panel by its variables', () => {
  const variables = dashboard.templating.list.map(({ name }) => name);
  expect(variables).toEqual(['datasource', 'namespace', 'instance']);
  for (const { title, targets } of panels) {
    for (const { expr } of targets!)
      for (const text of parseQuery(expr.replaceAll('$__rate_interval', '4s')).selectors)
        expect(text, title).toContain(
          // recorded series cover all instances
          text.startsWith('job:')
            ? 'namespace=~"$namespace"'
            : 'namespace=~"$namespace", instance=~"$instance"',
        );
  }
});

describe('the alerts', () => {
  it('have a severity, a summary and a runbook', () => {
    for (const { alert, labels, annotations } of alerts) {
      expect(['critical', 'warning'], alert).toContain(labels?.severity);
      expect(annotations?.summary, alert).toMatch(/^.{15,120}$/);
      expect(annotations?.description, alert).toMatch(/^.{60,}\.$/);
      const anchor = `#${alert!.toLowerCase()}`;
      expect(annotations?.runbook_url, alert).toMatch(new RegExp(`/docs/operations/runbook\\.md${anchor}$`));
      expect(runbook, alert).toContain(`\n### \`${alert}\`\n`);
    }
  });

  it('each fire in a unit test', () => {
    const { tests } = parse(read('rules.test.yaml'));
    const firing = tests.flatMap(
      ({ alert_rule_test }: { alert_rule_test: { alertname: string; exp_alerts?: object[] }[] }) =>
        alert_rule_test.filter(({ exp_alerts }) => exp_alerts).map(({ alertname }) => alertname),
    );
    expect([...new Set(firing)].sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  });

  it('are identical for the Prometheus operator', async () => {
    expect(parse(read('prometheus-rule.yaml')).spec).toEqual(parse(read('rules.yaml')));
    await run(process.execPath, [`${FOLDER}build-resources.ts`, '--check']);
  });

  it('pass the checks and the unit tests of promtool', async () => {
    const check = (...args: string[]) => run(promtool!, args, { cwd: FOLDER });
    expect(await check('check', 'rules', 'rules.yaml')).toContain(`${rules.length} rules found`);
    expect(await check('test', 'rules', 'rules.test.yaml')).toContain('SUCCESS');
  });
});

/** Series of a query's result. */
interface Series {
  value: [timeSeconds: number, value: string];
}

describe('every query', () => {
  let service: Service;
  let round = 0;

  /** Sends one request of every kind, and makes a change. */
  async function useAll(): Promise<void> {
    const cold = `cold-${round++}`;
    await service.sql`update hotels set name = ${cold} where id = 'a'`;
    const ids = { channel_ids: ['C', cold] };
    await Promise.all([
      service.get('/hotels'),
      service.get('/hotels/a'),
      service.get(`/hotels/${cold}`),
      service.get('/hotels/channel/C'),
      service.get('/hotels/registry/7'),
      service.get('/hotels/registry/x'),
      service.post('/hotels/channel/batch', ids),
      service.post('/hotels/registry/batch', { registry_ids: [7] }),
      service.get('/hotels/a', { key: 'none' }),
      service.get('/hotels/a', { key: makeKey() }),
      service.get('/nowhere'),
    ]);
  }

  beforeAll(async () => {
    const database = await freshDatabase();
    service = await startService({
      workers: 2,
      database,
      // only that a replica is read matters here, not its content
      env: { DATABASE_REPLICA_URLS: database.url },
      hotels: [{ id: 'a', channel_id: 'C', registry_id: 7 }],
    });
  });

  /** Starts a Prometheus that scrapes the service, and evaluates the rules, every half second. Returns its API. */
  async function startPrometheus() {
    const static_configs = [
      {
        targets: [`127.0.0.1:${service.adminPort}`],
        labels: { cluster: 'one', namespace: 'test', pod: 'one' },
      },
    ];
    const config = {
      global: { scrape_interval: '500ms', scrape_timeout: '500ms', evaluation_interval: '500ms' },
      rule_files: [`${FOLDER}rules.yaml`],
      scrape_configs: [{ job_name: 'hotel-api', static_configs }],
    };
    const server = await ownProgram(
      (port, folder) => [
        prometheus!,
        `--config.file=${folder}/prometheus.yml`,
        `--storage.tsdb.path=${folder}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      () => ({ 'prometheus.yml': JSON.stringify(config) }),
      /Server is ready to receive web requests/,
    );
    const client = new Client(server.port);
    return async <T>(path: string, parameters: Record<string, string> = {}): Promise<T> => {
      const response = await client.request(`/api/v1/${path}?${new URLSearchParams(parameters)}`);
      const { status, data, error } = response.json();
      expect([status, error], JSON.stringify(parameters)).toEqual(['success', undefined]);
      return data;
    };
  }

  it('uses series of a Prometheus that scrapes the service, groups by their labels, and returns numbers', async () => {
    const get = await startPrometheus();
    const query = (query: string) =>
      get<{ result: Series[] }>('query', { query }).then(({ result }) => result);
    let over = false;
    const load = (async () => {
      while (!over) await useAll();
    })();
    closeAtEnd('load', async () => {
      over = true;
      await load;
    });
    const valuesOf = async (expr: string) => (await query(expr)).map(({ value }) => Number(value[1]));

    expect(queries.length).toBeGreaterThan(70);
    for (const [where, expr] of queries) {
      const { selectors, grouping } = parseQuery(expr);
      const scraped = selectors.filter((text) => !FROM_ELSEWHERE.includes(/^[\w:]+/.exec(text)![0]));
      const found = scraped.map(async (text) => {
        const series = () => get<Record<string, string>[]>('series', { 'match[]': text });
        await expect.poll(series, { message: `${where}: ${text}`, timeout: 60_000 }).not.toEqual([]);
        return series();
      });
      const labels = (await Promise.all(found)).map(
        (series) => (label: string) => series.every((each) => label in each),
      );
      const ours = grouping.filter((label) => !['horizontalpodautoscaler', 'job_name'].includes(label));
      for (const label of found.length > 0 ? ours : [])
        expect([where, label, labels.some((has) => has(label))]).toEqual([where, label, true]);
    }
    for (const [where, expr] of shown) {
      const shows = async () => [where, (await valuesOf(expr)).some(Number.isFinite)];
      await expect.poll(shows, { interval: 250, timeout: 60_000 }).toEqual([where, true]);
    }
    // a scrape fails if it takes half a second
    await expect.poll(() => valuesOf('sum(hotel_api_log_current)')).toEqual([2]);
    // the query of KEDA's autoscaler returns one number
    const { triggers } = parse(read('../components/keda/scaled-object.yaml')).spec;
    const { query: scaling } = triggers.find(({ type }: { type: string }) => type === 'prometheus').metadata;
    expect(await valuesOf(scaling.replace('namespace="hotel-api"', 'namespace="test"'))).toHaveLength(1);

    const healths = async () => {
      const { groups } = await get<{ groups: { rules: { health: string }[] }[] }>('rules');
      return groups.flatMap((group) => group.rules).map(({ health }) => health);
    };
    await expect.poll(healths).toEqual(rules.map(() => 'ok'));
    // in normal operation, it receives no alert
    expect(await query('ALERTS{alertstate="firing"}')).toEqual([]);
  });
});
