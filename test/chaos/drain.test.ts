import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { groupOf, runningOf } from '../../src/demo/servers/processes.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { insertHotels } from '../support/hotel.ts';
import { linesOf } from '../support/log-lines.ts';
import { lacks, needs } from '../support/needs.ts';
import { startNginx } from '../support/nginx.ts';
import { addResult, promisedMs, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { hotelBody, hotelRow } from './hotels.ts';
import { type CheckedRequest, KeepAliveLoad } from './keep-alive-load.ts';

await needs('redis');

/** A CI machine with other work rejects batches at 300. */
const PER_SECOND = shortOrLong(100, 300);
const HOTELS = 1_000;
/** The same as in src/cluster/primary.ts. */
const SAME_SIGNAL_MS = 500;
const rows = Array.from({ length: HOTELS }, (_, i) => hotelRow(i));
const bodies = rows.map((_, i) => hotelBody(i));

const batch = (from: number, count: number): CheckedRequest => ({
  path: '/hotels/channel/batch',
  body: JSON.stringify({ channel_ids: rows.slice(from, from + count).map(({ channel_id }) => channel_id) }),
  answer: `[${bodies.slice(from, from + count).join(',')}]`,
});
/** Single hotels, batches of 100, and one of 1000 in 25, whose response of 1 MB takes long to send. */
const REQUESTS: CheckedRequest[] = Array.from({ length: 100 }, (_, i) => {
  if (i % 25 === 24) return batch(0, HOTELS);
  if (i % 5 === 4) return batch(7 * i, 100);
  return { path: `/hotels/chaos-${i}`, answer: bodies[i]! };
});

describe(`SIGTERM under ${PER_SECOND} requests/s`, () => {
  it('cuts no response, causes no 5xx, and is followed by a clean exit within 15 s', async (context) => {
    const service = await startService({ workers: 2, hotels: rows, env: { DRAIN_WAIT_MS: '1000' } });
    // the responses are cached first, because a cold start under load is another case
    for (const { path, body } of REQUESTS) await (body ? service.post(path, body) : service.get(path));
    const load = new KeepAliveLoad({ port: service.port, key: service.fullKey }, PER_SECOND, REQUESTS);
    await expect.poll(() => load.answered).toBeGreaterThan(PER_SECOND);
    const signalledAtMs = performance.now();
    process.kill(service.pid, 'SIGTERM');
    const exit = await service.exited;
    const tookMs = performance.now() - signalledAtMs;
    await load.stop();
    addResult(context, 'load', `SIGTERM under ${PER_SECOND} requests/s`, {
      requests: load.answered,
      'failed or wrong': load.faults.length,
      ended: `${(tookMs / 1_000).toFixed(1)} s`,
    });
    expect(load.faults).toEqual([]);
    expect(exit).toEqual({ code: 0, signal: null, forced: false });
    expect(tookMs).toBeLessThan(promisedMs(15_000));
    // the signal came under load, and the load noticed it
    expect(load.rejected).toBeGreaterThan(0);
  });

  it('exits at once on a second signal', async () => {
    const service = await startService({ workers: 2, hotels: rows, env: { DRAIN_WAIT_MS: '60000' } });
    const load = new KeepAliveLoad({ port: service.port, key: service.fullKey }, PER_SECOND, REQUESTS);
    await expect.poll(() => load.answered).toBeGreaterThan(PER_SECOND / 3);
    const group = await groupOf(service.pid);
    process.kill(service.pid, 'SIGTERM');
    // a second signal within half a second of the first is ignored, because npm forwards each signal again
    await expect.poll(() => linesOf(service.logs(), 'stopping')).not.toHaveLength(0);
    await sleep(SAME_SIGNAL_MS + 1);
    const signalledAtMs = performance.now();
    process.kill(service.pid, 'SIGTERM');
    expect(await service.exited).toEqual({ code: 1, signal: null, forced: false });
    expect(performance.now() - signalledAtMs).toBeLessThan(promisedMs(1_000));
    expect(await runningOf(group)).toEqual([]);
    await load.stop();
  });
});

describe.skipIf(await lacks('nginx'))(`three instances behind nginx under ${PER_SECOND} requests/s`, () => {
  it('are restarted one after the other without a failed request', async (context) => {
    const database = await freshDatabase();
    const redisDatabase = await freshRedis();
    await insertHotels(database.sql, rows);
    const env = { DRAIN_WAIT_MS: shortOrLong('500', '3000') };
    const start = (ports?: { port: number; adminPort: number }): Promise<Service> =>
      startService({ workers: 1, database, redisDatabase, env, ...(ports && { ports }) });
    const instances = await Promise.all([start(), start(), start()]);
    const port = await startNginx(instances.map((each) => each.port));
    const load = new KeepAliveLoad({ port, key: instances[0]!.fullKey }, PER_SECOND, REQUESTS);
    await expect.poll(() => load.answered).toBeGreaterThan(PER_SECOND);
    let slowestMs = 0;
    for (let round = 0; round < shortOrLong(1, 3); round++) {
      for (const [i, instance] of instances.entries()) {
        const signalledAtMs = performance.now();
        process.kill(instance.pid, 'SIGTERM');
        expect(await instance.exited).toEqual({ code: 0, signal: null, forced: false });
        slowestMs = Math.max(slowestMs, performance.now() - signalledAtMs);
        instances[i] = await start({ port: instance.port, adminPort: instance.adminPort });
        // nginx retries an instance a second after a failure
        await sleep(1_000);
      }
    }
    await load.stop();
    addResult(context, 'load', `rolling restart of three instances behind nginx, ${PER_SECOND} requests/s`, {
      requests: load.answered,
      'failed or wrong': load.faults.length + load.rejected,
      ended: `${(slowestMs / 1_000).toFixed(1)} s`,
    });
    expect(load.faults).toEqual([]);
    expect(load.rejected).toBe(0);
    expect(slowestMs).toBeLessThan(promisedMs(15_000));
  });
});
