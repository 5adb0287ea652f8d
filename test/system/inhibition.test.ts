import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { Alertmanager } from '../support/alertmanager.ts';
import { needs } from '../support/needs.ts';
import { pathOf } from '../support/programs.ts';

const FOLDER = fileURLToPath(new URL('../../k8s/monitoring/', import.meta.url));
const configuration = parse(readFileSync(`${FOLDER}alertmanager.yaml`, 'utf8'));
const rules: { alert?: string }[] = parse(readFileSync(`${FOLDER}rules.yaml`, 'utf8')).groups.flatMap(
  ({ rules }: { rules: { alert?: string }[] }) => rules,
);

await needs('alertmanager');
const program = await pathOf('alertmanager');

const PLACE = { cluster: 'c', namespace: 'production', job: 'hotel-api' };
const alert = (alertname: string, labels: Record<string, string> = {}) => ({
  labels: { alertname, ...PLACE, ...labels },
});

async function notifiedOf(alerts: { labels: Record<string, string> }[]): Promise<string[]> {
  const manager = await Alertmanager.start(program!, configuration);
  await manager.fire(alerts);
  await expect.poll(() => manager.count()).toBe(alerts.length);
  return (await manager.active())
    .map(({ labels }) => [labels.alertname, labels.namespace, labels.pod].filter(Boolean).join(' '))
    .sort();
}

it('an outage of PostgreSQL pages once, and hides neither other deployments nor other causes', async () => {
  const pods = ['p1', 'p2', 'p3'];
  const outage = [
    alert('HotelApiPostgresUnavailable'),
    ...pods.map((pod) => alert('HotelApiPostgresBreakerOpen', { pod })),
    ...pods.map((pod) => alert('HotelApiLogNotFollowed', { pod })),
    ...pods.map((pod) => alert('HotelApiLogPollFailures', { pod })),
    alert('HotelApiErrorBudgetBurnsFast'),
    alert('HotelApiErrorBudgetBurnsSlowly'),
    alert('HotelApiRejecting', { reason: 'postgres_unavailable' }),
    alert('HotelApiFreshnessLag'),
    alert('HotelApiFreshnessLagPersists'),
    alert('HotelApiWorkersMissing', { pod: 'p1' }),
  ];
  const others = [
    alert('HotelApiErrorBudgetBurnsFast', { namespace: 'staging' }),
    alert('HotelApiRedisBreakerOpen', { pod: 'p1' }),
  ];
  expect(await notifiedOf([...outage, ...others])).toEqual([
    'HotelApiErrorBudgetBurnsFast staging',
    'HotelApiPostgresUnavailable production',
    'HotelApiRedisBreakerOpen production p1',
  ]);
});

it('a deployment that is not scraped has no other alert', async () => {
  const all = rules.flatMap(({ alert: name }) => (name ? [alert(name)] : []));
  expect(await notifiedOf(all)).toEqual(['HotelApiAbsent production']);
});

it('the rules name existing alerts', () => {
  const names = rules.flatMap(({ alert: name }) => name ?? []);
  for (const { source_matchers, target_matchers } of configuration.inhibit_rules)
    for (const text of [...source_matchers, ...target_matchers]) {
      const [, value] = /^alertname=~?"(.*)"$/.exec(text)!;
      const alternatives = /^HotelApi\((.*)\)$/
        .exec(value!)?.[1]
        ?.split('|')
        .map((end) => `HotelApi${end}`) ?? [value!];
      for (const each of alternatives)
        expect(
          names.some((name) => new RegExp(`^(?:${each})$`).test(name)),
          each,
        ).toBe(true);
    }
});
