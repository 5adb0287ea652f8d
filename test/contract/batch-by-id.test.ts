import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { idsOf } from '../support/responses.ts';
import { insertCollection, insertKey } from '../support/rows.ts';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';

const HOTELS = 1_100;
/** Without channel ids, so that no other batch finds them without the scope. */
const ODD_IDS = ['é'.repeat(255), '😀', 'a b/c', '\n', '__proto__', 'constructor', 'x'.repeat(255), '0'];
const PATH = '/hotels/batch';

const hotels = [
  ...Array.from({ length: HOTELS }, (_, i) => ({ id: `h${i}`, registry_id: 500_000 + i })),
  ...ODD_IDS.map((id) => ({ id })),
  // found by its id alone
  { id: 'other', channel_id: 'h1' },
];

/** Ways on which a batch may be answered. */
const WAYS: [way: string, options: ServiceOptions][] = [
  ['a local cache', {}],
  ['a small local cache', { env: { L1_MAX_BYTES: String(1024 ** 2) } }],
  ['Redis alone', { env: { L1_MAX_BYTES: '0' } }],
  ['PostgreSQL alone', { redis: false, env: { L1_MAX_BYTES: '0' } }],
];

describe.each(WAYS)('a batch by id with %s', (_, options) => {
  let service: Service;
  const byId = (ids: unknown[], key = 'full') => service.post(PATH, { ids }, { key });

  beforeAll(async () => {
    service = await startService({ ...options, hotels });
  });
  afterAll(async () => void (await service.stop()));

  it('returns hotels in the requested order, each once, as singles do, and leaves others out', async () => {
    const asked = ['h7', 'nobody', 'h3', 'h7', '', 'h1', ...ODD_IDS, 'CH-1', 'nobody'];
    const found = ['h7', 'h3', 'h1', ...ODD_IDS];
    for (const key of ['full', 'narrow'])
      for (let round = 0; round < 3; round++) {
        const singles = await Promise.all(
          found.map(async (id) => (await service.get(`/hotels/${encodeURIComponent(id)}`, { key })).text),
        );
        expect((await byId(asked, key)).text).toBe(`[${singles.join()}]`);
      }
  });

  it('accepts 1000 ids, of which any number is cached', async () => {
    const asked = Array.from({ length: 1_000 }, (_, i) => `h${(i * 7) % HOTELS}`);
    for (let round = 0; round < 3; round++) expect(idsOf(await byId(asked))).toEqual([...new Set(asked)]);
    const compressed = await service.post(PATH, { ids: asked }, { headers: { 'accept-encoding': 'gzip' } });
    expect([compressed.status, compressed.headers['content-encoding']]).toEqual([200, 'gzip']);
    expect(idsOf(await byId(new Array(1_000).fill('h1')))).toEqual(['h1']);
    expect((await byId([])).text).toBe('[]');
  });

  it('leaves out what a key of a collection does not see', async () => {
    await insertCollection(service.sql, 'few', ['h1', 'h5', '😀', 'nobody']);
    const key = await insertKey(service.sql, [], 'few');
    for (const asked of [
      ['h9', '😀', 'h5', 'nobody', 'h1', 'h5'],
      ['h9', 'h8'],
      Array.from({ length: 1_000 }, (_, i) => `h${i}`),
    ]) {
      const inside = [...new Set(asked)].filter((id) => ['h1', 'h5', '😀'].includes(id));
      for (let round = 0; round < 3; round++) expect(idsOf(await byId(asked, key))).toEqual(inside);
    }
  });

  it('follows changes', async () => {
    expect(idsOf(await byId(['new', 'h20', 'h21']))).toEqual(['h20', 'h21']);
    await service.insert({ id: 'new' });
    await service.sql`delete from hotels where id = 'h20'`;
    await expect.poll(async () => idsOf(await byId(['new', 'h20', 'h21']))).toEqual(['new', 'h21']);
    await service.sql`update hotels set name = 'Another' where id = 'h21'`;
    await expect.poll(async () => (await byId(['h21'])).json()[0].name).toBe('Another');
  });
});
