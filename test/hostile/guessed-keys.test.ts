import { beforeAll, expect, it } from 'vitest';
import { makeKey } from '../../src/auth/key.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { type Service, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

await needs('redis');

let service: Service;

beforeAll(async () => {
  service = await startService({ hotels: [{ id: 'h1' }] });
});

/** Returns the keys looked up outside the workers so far. */
const lookups = () => service.metric('hotel_api_key_lookups_total', { tier: 'postgres' });
const statusOf = async (key: string) => (await service.get('/hotels/h1', { key })).status;

it('forged keys are rejected without a lookup, while others are served', async () => {
  const { text: answer } = await service.get('/hotels/h1');
  const others = new SteadyLoad(service, [{ path: '/hotels/h1', answer }], 2);
  const before = await lookups();
  const connection = new RawConnection(service.port);
  for (let i = 0; i < 1_000; i++) {
    const key = makeKey();
    const forged = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0');
    await connection.write(`GET /hotels/h1 HTTP/1.1\r\nHost: a\r\nx-api-key: ${forged}\r\n\r\n`);
    expect((await connection.read())?.status).toBe(401);
  }
  connection.close();
  await others.answers(10);
  expect(await others.stop()).toMatchObject(ALL_ANSWERED);
  expect(await lookups()).toBe(before);
});

it('an unknown key is looked up once, and too many unknown keys yield 503, but not for others', async () => {
  const unknown = makeKey();
  const before = await lookups();
  for (let i = 0; i < 50; i++) expect(await statusOf(unknown)).toBe(401);
  expect((await lookups()) - before).toBe(1);

  const valid = await insertKey(service.sql, []);
  const responses = await Promise.all(
    Array.from({ length: 1_000 }, () => service.get('/hotels/h1', { key: makeKey() })),
  );
  expect(await statusOf(valid)).toBe(200);
  const rejected = responses.filter(({ status }) => status === 503);
  expect(rejected.length).toBeGreaterThan(0);
  for (const { text, headers } of rejected) {
    expect(text).toBe('{"error":"Service unavailable"}');
    expect(headers['retry-after']).toBe('1');
  }
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([401, 503]));
  expect((await lookups()) - before).toBeLessThan(responses.length);
});
