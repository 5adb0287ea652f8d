import { randomBytes } from 'node:crypto';
import postgres, { type Sql } from 'postgres';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hotel } from '../../src/cache/arena/arena.fixture.ts';
import { REQUEST_CHANNEL } from '../../src/change-feed/listener.ts';
import { readUnverified } from '../../src/change-feed/payload.ts';
import { FEED_CHANNEL } from '../../src/change-feed/term.ts';
import { addressOf } from '../support/address.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

/** Login that may connect to the database and has no other right. */
let stranger: Sql;
let service: Service;
/** Messages that the stranger received on the feed's channel. */
const received: string[] = [];

beforeAll(async () => {
  service = await startService({ hotels: [{ id: 'h', name: 'true' }], env: { L1_MAX_BYTES: '0' } });
  const login = `stranger_${randomBytes(6).toString('hex')}`;
  const password = randomBytes(16).toString('hex');
  await service.sql.unsafe(`create role ${login} login password '${password}'`);
  const url = addressOf(service.database.ownerUrl, { username: login, password });
  stranger = postgres(url, { max: 1, onnotice: () => {} });
  closeAtEnd('the login of a stranger', async () => {
    await stranger.end();
    await service.sql.unsafe(`drop role ${login}`);
  });
  await stranger.listen(FEED_CHANNEL, (payload) => received.push(payload));
});
beforeEach(async () => {
  await expect.poll(() => service.metric('hotel_api_change_feed_up')).toBe(1);
});

const rejected = () => service.metric('hotel_api_feed_messages_rejected_total');
const feedResets = () => service.metric('hotel_api_feed_resets_total');
const workerRestarts = () => service.metric('hotel_api_worker_restarts_total');

/** Sends these as the stranger, and checks that all are ignored and no change is lost. */
async function sendInVain(payloads: string[]): Promise<void> {
  const [before, resets, restarts] = [await rejected(), await feedResets(), await workerRestarts()];
  for (const payload of payloads) await stranger.notify(FEED_CHANNEL, payload);
  await expect.poll(rejected).toBe(before + payloads.length);
  expect(await workerRestarts()).toBe(restarts);
  expect(await feedResets()).toBe(resets);
  const name = `after ${randomBytes(6).toString('hex')}`;
  await service.sql`update hotels set name = ${name} where id = 'h'`;
  await expect.poll(async () => (await service.get('/hotels/h')).json().name).toBe(name);
}

describe('a login of PostgreSQL that may only connect', () => {
  it('cannot read the secret or sign messages', async () => {
    await expect(stranger`select secret from hotel_api_secrets`).rejects.toMatchObject({ code: '42501' });
    await expect(stranger`select hotel_api_draw_secret()`).rejects.toMatchObject({ code: '42501' });
  });

  it('cannot end a worker by malformed messages', () =>
    sendInVain(['{"h":5}', '', '{', 'null', '[]', '\u0001'.repeat(100), 'x'.repeat(7_999)]));

  it('cannot announce another generation of Redis', async () => {
    await expect.poll(() => received.length).toBeGreaterThan(0);
    const { client } = service.redisDatabase!;
    const message = readUnverified(received.at(-1)!)!;
    await client.set('zzzzzzzzzzz:h:h', hotel({ id: 'h', name: 'false' }).bytes);
    const forged = JSON.stringify({ ...message, n: message.n + 1, g: 'zzzzzzzzzzz' });
    await sendInVain([forged, received.at(-1)!.slice(0, 22) + forged, `${'A'.repeat(22)}${forged}`]);
    const [worker] = await service.workerPids();
    process.kill(worker!, 'SIGKILL');
    await expect.poll(workerRestarts).toBe(1);
    await service.ready();
    expect((await service.get('/hotels/h')).json().name).not.toBe('false');
  });

  it('cannot replay a message', async () => {
    await service.sql`update hotels set name = 'announced' where id = 'h'`;
    await expect
      .poll(() => received.filter((payload) => readUnverified(payload)?.h).length)
      .toBeGreaterThan(0);
    const resets = await feedResets();
    const before = await rejected();
    for (const payload of received.slice(-5)) await stranger.notify(FEED_CHANNEL, payload);
    await expect.poll(rejected).toBeGreaterThanOrEqual(before + 5);
    expect(await feedResets()).toBe(resets);
  });

  it('has no effect by requests of an instance', async () => {
    for (const payload of ['', 'speak', 'x'.repeat(7_999)]) await stranger.notify(REQUEST_CHANNEL, payload);
    await sendInVain([]);
  });
});
