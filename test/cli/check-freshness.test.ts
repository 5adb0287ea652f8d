import { createServer } from 'node:http';
import { describe, expect, it } from 'vitest';
import { Checker, requester } from '../../src/cli/check-freshness.ts';
import { listen } from '../support/cleanup.ts';
import { freshDatabase } from '../support/database.ts';
import { startService } from '../support/service.ts';
import { type Outcome, startProgram } from './program.ts';

/** The tests judge what the command reports, not how fresh responses are, which the simulation judges. */
const BOUND_MS = 60_000;
const service = await startService({
  hotels: Array.from({ length: 100 }, (_, i) => ({ id: `h${i}`, registry_id: i + 1 })),
});

/** Runs the command for a second, by default against the service. */
async function check(
  key: string,
  { url = service.url, databaseUrl = service.database.url, promiseMs = BOUND_MS } = {},
): Promise<Outcome & { report: ReturnType<typeof JSON.parse> }> {
  const command = ['check-freshness', '--url', url, '--for', '1s', '--json', '--promise-ms', `${promiseMs}`];
  const outcome = await startProgram(command, { DATABASE_URL: databaseUrl, HOTEL_API_KEY: key }).outcome;
  return { ...outcome, report: outcome.stdout === '' ? undefined : JSON.parse(outcome.stdout) };
}

/** Changes hotels during `work`, and leaves the processors to it. */
async function changing<T>(work: Promise<T>): Promise<T> {
  let isOver = false;
  void work.finally(() => {
    isOver = true;
  });
  for (let i = 0; !isOver; i++) {
    await service.sql`update hotels set name = ${`v${i}`} where id = ${`h${i % 100}`}`;
    await service.sql`select pg_sleep(0.01)`;
    if (i % 10 === 0) await service.sql`delete from hotels where id = 'h5'`;
    if (i % 10 === 5) await service.insert({ id: 'h5', name: `again ${i}` });
  }
  return work;
}

describe('check-freshness', () => {
  it('finds no fault in a healthy service', async () => {
    const { code, stderr, report } = await changing(check(service.narrowKey));
    expect([code, stderr]).toEqual([0, '']);
    expect(report.answers).toBeGreaterThan(0);
    expect(report.stale).toEqual([]);
  });

  it('measures until when changes are visible on every connection', async () => {
    const end = new AbortController();
    const get = requester(service.url, service.narrowKey);
    const checker = new Checker(service.sql, get, BOUND_MS, end.signal);
    const untilChanged = expect.poll(() => checker.changes).toBeGreaterThan(0);
    await changing(Promise.all([checker.watchLog(), untilChanged.finally(() => end.abort())]));
    expect(checker.lag().median).toBeGreaterThanOrEqual(0);
    expect(checker.stale).toEqual([]);
  });

  it('fails if nothing was compared: an invalid key, a deployment that rejects everything, no hotel', async () => {
    const port = await listen(createServer((_, response) => response.writeHead(503).end()));
    const rejected = await changing(check('hk_any', { url: `http://127.0.0.1:${port}` }));
    expect(rejected.report).toMatchObject({ answers: 0, changes: 0, stale: [] });
    const { url: databaseUrl } = await freshDatabase();
    for (const [{ code, stderr }, reason] of [
      [await check('hk_wrong'), /responded with 401/],
      [rejected, /nothing was compared: all \d+ requests were rejected \(503\)/],
      [await check(service.fullKey, { databaseUrl }), /nothing was compared: there are no hotels/],
    ] as const)
      expect([code, stderr]).toEqual([1, expect.stringMatching(reason)]);
  });

  it('reports stale responses', async () => {
    /** responses of this moment, with which a proxy goes on */
    const bodies = new Map<string, string>();
    for (let i = 0; i < 100; i++) bodies.set(`/hotels/h${i}`, (await service.get(`/hotels/h${i}`)).text);
    const port = await listen(createServer(({ url = '' }, response) => response.end(bodies.get(url))));
    const url = `http://127.0.0.1:${port}`;
    await service.sql`update hotels set name = 'changed since'`;
    const { code, stderr, report } = await check(service.fullKey, { url, promiseMs: 100 });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/times older than promised/)]);
    expect(report.stale.join()).toMatch(/hotel h\d+: older than \d+ ms/);
  });
});
