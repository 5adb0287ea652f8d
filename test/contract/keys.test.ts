import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import type { HttpResponse } from '../support/client.ts';
import { errorsIn } from '../support/log-lines.ts';
import { type Service, startService } from '../support/service.ts';
import { titled } from '../support/titled.ts';

let service: Service;

beforeAll(async () => {
  // two workers, because a change must be effective in both
  service = await startService({
    workers: 2,
    hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }],
  });
});

let made = 0;

interface KeyRow {
  scopes?: string[];
  expires_at?: Date | null;
  revoked_at?: Date | null;
}

/** Inserts a key as another system would. */
async function insertKey(row: KeyRow = {}): Promise<string> {
  const key = makeKey();
  await service.sql`insert into api_keys ${service.sql({
    id: `key-${++made}`,
    name: 'a test',
    key_sha256: Buffer.from(hashOf(key), 'hex'),
    scopes: row.scopes ?? [],
    expires_at: row.expires_at ?? null,
    revoked_at: row.revoked_at ?? null,
  })}`;
  return key;
}

function expectUnauthorized(response: HttpResponse): void {
  expect([response.status, response.text, response.headers['content-type']]).toEqual([
    401,
    '{"error":"Unauthorized"}',
    'application/json',
  ]);
}

/** Sends requests over enough connections to reach both workers. */
async function statusesOf(key: string, path: string): Promise<number[]> {
  const responses = await Promise.all(Array.from({ length: 12 }, () => service.get(path, { key })));
  return responses.map(({ status }) => status);
}

/** Resolves when every response has this status. */
const allBecome = (status: number, key: string) =>
  expect.poll(() => statusesOf(key, '/hotels/h1')).toEqual(new Array(12).fill(status));

describe('a key', () => {
  it('is rejected if it is missing or empty', async () => {
    expectUnauthorized(await service.get('/hotels', { key: 'none' }));
    expectUnauthorized(await service.get('/hotels', { key: '' }));
    expectUnauthorized(await service.post('/hotels/channel/batch', { channel_ids: [] }, { key: 'none' }));
  });

  it.each(
    [
      'x',
      'hk_',
      'undefined',
      '__proto__',
      '*',
      'Bearer x',
      `hk_${'0'.repeat(38)}`,
      'é',
      'x'.repeat(3_000),
      ['a', 'b'].join(', '),
    ].map(titled),
  )('is rejected if it is malformed: %s', async (_, key) => {
    expectUnauthorized(await service.get('/hotels', { key }));
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
    for (const row of [{ revoked_at: past }, { expires_at: past }, { expires_at: past, revoked_at: past }]) {
      const key = await insertKey({ ...row, scopes: ['registry'] });
      for (const path of ['/hotels', '/hotels/h1', '/hotels/registry/500001']) {
        expectUnauthorized(await service.get(path, { key }));
      }
    }
  });

  it('is accepted until it expires, and rejected then', async () => {
    const key = await insertKey({ expires_at: new Date('9999-12-31') });
    expect(await statusesOf(key, '/hotels/h1')).toEqual(new Array(12).fill(200));
    await service.sql`update api_keys set expires_at = now() + interval '1 s' where expires_at > '9000-01-01'`;
    // the column is not changed again: the time alone ends it
    await allBecome(401, key);
  });

  it('receives only what its scopes permit', async () => {
    const narrow = await insertKey();
    const full = await insertKey({ scopes: ['registry'] });
    expect((await service.get('/hotels/h1', { key: narrow })).json().registry_id).toBeNull();
    expect((await service.get('/hotels/h1', { key: full })).json().registry_id).toBe(500001);
    expect((await service.get('/hotels/registry/500001', { key: narrow })).status).toBe(403);
    expect((await service.get('/hotels/registry/500001', { key: full })).status).toBe(200);
  });
});

describe('the header', () => {
  const status = async (headers: string) => {
    const answer = await service.raw(
      `GET /hotels/h1 HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n`,
    );
    return Number(answer.toString().slice(9, 12));
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
  expect(await statusesOf(service.fullKey, '/hotels/h1')).toEqual(new Array(12).fill(200));
  await service.sql`truncate api_keys`;
  await allBecome(401, service.fullKey);
  await service.sql`insert into api_keys ${service.sql(keys as never)}`;
  await allBecome(200, service.fullKey);
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
