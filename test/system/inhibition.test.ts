import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { read } from '../documents/files.ts';
import { Client } from '../support/client.ts';
import { needs } from '../support/needs.ts';
import { ownProgram } from '../support/own-server.ts';
import { pathOf } from '../support/programs.ts';

const configuration = parse(read('k8s/monitoring/alertmanager.yaml'));
const rules: { alert?: string }[] = parse(read('k8s/monitoring/rules.yaml')).groups.flatMap(
  ({ rules }: { rules: { alert?: string }[] }) => rules,
);

await needs('alertmanager');
const program = await pathOf('alertmanager');

interface Alert {
  labels: Record<string, string>;
}

const PLACE = { cluster: 'c', namespace: 'production', job: 'hotel-api' };
const alert = (alertname: string, labels: Record<string, string> = {}): Alert => ({
  labels: { alertname, ...PLACE, ...labels },
});

/** Returns the alerts of these that an Alertmanager with the inhibition rules does not mute. */
async function notifiedOf(alerts: Alert[]): Promise<string[]> {
  const complete = { route: { receiver: 'none' }, receivers: [{ name: 'none' }], ...configuration };
  const manager = await ownProgram(
    (port, folder) => [
      program!,
      `--config.file=${folder}/alertmanager.yml`,
      `--storage.path=${folder}/data`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--cluster.listen-address=',
    ],
    () => ({ 'alertmanager.yml': JSON.stringify(complete) }),
    /Listening on/,
  );
  const send = (query: string, method: string, body?: Buffer) =>
    new Client(manager.port).request(`/api/v2/alerts${query}`, { method }, body);
  expect((await send('', 'POST', Buffer.from(JSON.stringify(alerts)))).status).toBe(200);
  const get = async (query = ''): Promise<Alert[]> => (await send(query, 'GET')).json();
  await expect.poll(async () => (await get()).length).toBe(alerts.length);
  return (await get('?active=true&inhibited=false&silenced=false'))
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
