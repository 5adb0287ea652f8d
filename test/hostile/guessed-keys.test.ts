import { beforeEach, expect, it } from 'vitest';
import { makeKey } from '../../src/auth/key.ts';
import { AllWorkers } from '../support/all-workers.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { addResult, checksTimes, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { Bystander, expectUnharmed } from './bystander.ts';
import type { FloodOptions, FloodResult } from './flood-thread.ts';
import { LoadThread } from './load-thread.ts';
import { residentMiB, workersOf } from './memory.ts';

await needs('redis');

const SECONDS = shortOrLong(3, 15);
const MAX_LOOKUPS_PER_SECOND = 50;

let service: Service;
let bystander: Bystander;

beforeEach(async () => {
  service = await startService({ workers: 2, hotels: [{ id: 'h1', channel_id: 'CH-1' }] });
  await workersOf(service, 2);
  // every worker has cached the valid key
  await (await AllWorkers.of(service)).get('/hotels/h1');
  bystander = new Bystander(service, ['h1']);
  await bystander.watch(500);
});

const get = (key: string) => `GET /hotels/h1 HTTP/1.1\r\nHost: a\r\nx-api-key: ${key}\r\n\r\n`;

/** Runs a flood to its end. */
async function flood(options: FloodOptions): Promise<FloodResult> {
  const thread = new LoadThread<FloodResult>('./flood-thread.ts', options);
  await thread.ready;
  thread.start();
  return thread.stop();
}

/** Returns the keys looked up outside the workers so far, by tier. */
async function lookups(): Promise<{ redis: number; postgres: number }> {
  const count = (tier: string) => service.metric('hotel_api_key_lookups_total', { tier });
  return { redis: await count('redis'), postgres: await count('postgres') };
}

it('20,000 forged keys a second are rejected without a look-up, and others are unaffected', async (context) => {
  const forged = Array.from({ length: 20_000 }, () => {
    const key = makeKey();
    return get(key.slice(0, -1) + (key.endsWith('0') ? '1' : '0'));
  });
  const quiet = await bystander.watch(shortOrLong(1_000, 5_000));
  const before = await lookups();
  const beforeMiB = await residentMiB(await service.workerPids());
  bystander.start();
  const flooded = await flood({
    port: service.port,
    perSecond: 20_000,
    seconds: SECONDS,
    requests: forged,
    pipelined: 20,
    connections: 16,
  });
  const meanwhile = await bystander.stop();
  const perSecond = (1_000 * flooded.sent) / flooded.tookMs;
  const after = await lookups();
  const lookedUp = Math.max(after.redis - before.redis, after.postgres - before.postgres);
  const grownMiB = (await residentMiB(await service.workerPids())) - beforeMiB;
  addResult(context, 'hostile clients', `${Math.round(perSecond / 1000)},000 forged keys/s`, {
    'look-ups/s': ((1_000 * lookedUp) / flooded.tookMs).toFixed(1),
    'memory + MiB': Math.round(grownMiB),
    "others' p99 ms": `${quiet.p99Ms.toFixed(1)} → ${meanwhile.p99Ms.toFixed(1)}`,
  });
  expect(Object.keys(flooded.answers)).toEqual(['401']);
  if (checksTimes) expect(perSecond).toBeGreaterThan(19_000);
  expect(after).toEqual(before);
  expect(grownMiB).toBeLessThan(64);
  expectUnharmed(quiet, meanwhile);
});

it('5000 unknown keys are looked up once a minute, at most 50 a second, and others are unaffected', async (context) => {
  const unknownKeys = Array.from({ length: 5_000 }, () => get(makeKey()));
  const quiet = await bystander.watch(shortOrLong(1_000, 5_000));
  // valid, but not cached: their first use must work beside the unknown keys
  const idle = await Promise.all(Array.from({ length: 10 }, () => insertKey(service.sql, [])));
  const before = await lookups();
  const beganMs = performance.now();
  bystander.start();
  const flooding = flood({
    port: service.port,
    perSecond: 2_000,
    seconds: SECONDS,
    requests: unknownKeys,
    pipelined: 1,
    connections: 128,
  });
  const rejected = (async () => {
    // a key created meanwhile is accepted within a second
    const answers: number[] = [];
    for (const key of idle) {
      await new Promise((resolve) => setTimeout(resolve, (1_000 * SECONDS) / (idle.length + 2)));
      answers.push((await service.get('/hotels/h1', { key })).status);
    }
    const fresh = await insertKey(service.sql, []);
    await expect.poll(async () => (await service.get('/hotels/h1', { key: fresh })).status).toBe(200);
    return answers;
  })();
  const flooded = await flooding;
  const meanwhile = await bystander.stop();
  const statuses = await rejected;
  const after = await lookups();
  const lastedS = (performance.now() - beganMs) / 1_000;
  const good = idle.length + 1;
  // each worker looks up by itself
  const lookedUp = {
    redis: after.redis - before.redis - 2 * good,
    postgres: after.postgres - before.postgres - good,
  };
  addResult(
    context,
    'hostile clients',
    `5000 unknown keys, ${Math.round((1_000 * flooded.sent) / flooded.tookMs)}/s`,
    {
      'look-ups/s': (Math.max(lookedUp.redis, lookedUp.postgres) / lastedS).toFixed(1),
      "others' p99 ms": `${quiet.p99Ms.toFixed(1)} → ${meanwhile.p99Ms.toFixed(1)}`,
    },
  );
  expect(statuses).toEqual(idle.map(() => 200));
  expect(Object.keys(flooded.answers).sort()).toEqual(['401', '503']);
  for (const tier of ['redis', 'postgres'] as const) {
    expect(lookedUp[tier]).toBeLessThan(MAX_LOOKUPS_PER_SECOND * lastedS);
    expect(lookedUp[tier]).toBeGreaterThan(0);
  }
  expectUnharmed(quiet, meanwhile);
  // the log is limited too: 50 lines a second of each worker
  const lines = service.logs().filter((line) => /"status":503/.test(line));
  expect(lines.length).toBeLessThanOrEqual(2 * 50 * (Math.ceil(lastedS) + 1));
});

it('an unknown key is looked up once for any number of requests, and the limit on unknown keys yields 503', async () => {
  const unknown = makeKey();
  const before = await lookups();
  for (let i = 0; i < 50; i++) expect((await service.get('/hotels/h1', { key: unknown })).status).toBe(401);
  const after = await lookups();
  // once in each worker reached
  expect(after.redis - before.redis).toBeLessThanOrEqual(2);
  expect(after.postgres - before.postgres).toBeLessThanOrEqual(2);
  const beganMs = performance.now();
  const responses = await Promise.all(
    Array.from({ length: 150 }, () => service.get('/hotels/h1', { key: makeKey() })),
  );
  const lastedS = (performance.now() - beganMs) / 1_000;
  const rejected = responses.filter(({ status }) => status === 503);
  expect(rejected.length).toBeGreaterThanOrEqual(150 - MAX_LOOKUPS_PER_SECOND * Math.ceil(lastedS));
  expect(rejected.length).toBeLessThan(150);
  for (const { text, headers } of rejected) {
    expect(text).toBe('{"error":"Service unavailable"}');
    expect(headers['retry-after']).toBe('1');
  }
});
