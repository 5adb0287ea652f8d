import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { AllWorkers, status as hasStatus } from '../support/all-workers.ts';
import type { HttpResponse } from '../support/client.ts';
import { errorsIn } from '../support/log-lines.ts';
import { expectError } from '../support/responses.ts';
import { insertKey } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

let service: Service;
let allWorkers: AllWorkers;

beforeAll(async () => {
  // two workers, because a change must be effective in both
  service = await startService({
    workers: 2,
    hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }],
  });
  allWorkers = await AllWorkers.of(service);
});

const setKey = (key: string, change: object) =>
  service.sql`update api_keys set ${service.sql(change as never)} where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
const expectUnauthorized = (response: HttpResponse) => expectError(response, 401, 'Unauthorized');

describe('a key', () => {
  it.each([
    ...['none', '', 'x', 'hk_', 'undefined', '__proto__', '*', 'Bearer x', `hk_${'0'.repeat(38)}`, 'é'],
    ...['x'.repeat(3_000), 'a, b'],
  ])('is rejected if it is missing or malformed: %j', async (key) => {
    expectUnauthorized(await service.get('/hotels', { key }));
    expectUnauthorized(await service.post('/hotels/channel/batch', { channel_ids: [] }, { key }));
  });

  it('is rejected if it is almost correct', async () => {
    const { fullKey } = service;
    const altered = [
      fullKey.slice(0, -1),
      `${fullKey}0`,
      fullKey.toUpperCase(),
      fullKey.toLowerCase(),
      `${fullKey},${fullKey}`,
      `"${fullKey}"`,
      fullKey.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
    ];
    for (const key of altered) expectUnauthorized(await service.get('/hotels', { key }));
  });

  it('is rejected if it is well-formed but unknown, at the first and at later requests', async () => {
    const key = makeKey();
    for (let round = 0; round < 3; round++) expectUnauthorized(await service.get('/hotels/h1', { key }));
  });

  it('is rejected if it is revoked or expired, with any scopes', async () => {
    const past = new Date('2020-01-01');
    for (const change of [
      { revoked_at: past, expires_at: past },
      { revoked_at: past },
      { expires_at: past },
    ]) {
      const key = await insertKey(service.sql, ['registry']);
      await setKey(key, change);
      for (const path of ['/hotels', '/hotels/h1', '/hotels/registry/500001']) {
        expectUnauthorized(await service.get(path, { key }));
      }
    }
  });

  it('is accepted until it expires, and rejected then', async () => {
    const key = await insertKey(service.sql, []);
    await setKey(key, { expires_at: new Date('9999-12-31') });
    await allWorkers.until('/hotels/h1', hasStatus(200), key);
    await service.sql`update api_keys set expires_at = now() + interval '1 s' where expires_at > '9000-01-01'`;
    // the column is not changed again: the time alone ends it
    await allWorkers.until('/hotels/h1', hasStatus(401), key);
  });
});

describe('the header', () => {
  const status = async (headers: string) => {
    const answer = await service.raw(
      `GET /hotels/h1 HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n`,
    );
    return Number(answer.slice(9, 12));
  };

  it('may be written in any case, with whitespace around the value', async () => {
    expect(await status(`X-API-KEY: ${service.fullKey}\r\n`)).toBe(200);
    expect(await status(`x-Api-Key:${service.fullKey}\r\n`)).toBe(200);
    expect(await status(`x-api-key:   ${service.fullKey}  \r\n`)).toBe(200);
  });

  it('counts once: the first of two', async () => {
    expect(await status(`x-api-key: ${service.fullKey}\r\nx-api-key: nonsense\r\n`)).toBe(200);
    expect(await status(`x-api-key: nonsense\r\nx-api-key: ${service.fullKey}\r\n`)).toBe(401);
    expect(await status(`x-api-key: \r\nX-Api-Key: ${service.fullKey}\r\n`)).toBe(401);
  });

  it('is the only place for a key', async () => {
    expect(await status(`Authorization: Bearer ${service.fullKey}\r\n`)).toBe(401);
    expect(await status(`Cookie: x-api-key=${service.fullKey}\r\n`)).toBe(401);
    expectUnauthorized(await service.get(`/hotels?x-api-key=${service.fullKey}`, { key: 'none' }));
  });
});

it('all keys are rejected after a TRUNCATE, by every worker', async () => {
  const keys = await service.sql`select * from api_keys`;
  await allWorkers.until('/hotels/h1', hasStatus(200));
  await service.sql`truncate api_keys`;
  await allWorkers.until('/hotels/h1', hasStatus(401));
  await service.sql`insert into api_keys ${service.sql(keys as never)}`;
  await allWorkers.until('/hotels/h1', hasStatus(200));
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});

it('no printed line contains a key', () => {
  const printed = service.logs().join('\n');
  expect(printed).not.toContain(service.fullKey);
  expect(printed).not.toContain(service.narrowKey);
  expect(printed).not.toMatch(/hk_[0-9A-Za-z]{38}/);
});
