import { beforeAll, describe, expect, it } from 'vitest';
import { insertHotels } from '../support/hotel.ts';
import type { FaultProxy } from '../support/proxy.ts';
import { type Service, startBehindProxy } from '../support/service.ts';
import { withoutTriggers } from '../support/triggers.ts';

const HOTELS = 500;
const PIPELINED = 10;

let service: Service;
let proxy: FaultProxy;

beforeAll(async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({ id: `h${String(i).padStart(3, '0')}` }));
  ({ service, proxy } = await startBehindProxy({
    redis: false,
    hotels,
    env: { DATABASE_TIMEOUT_MS: '1000' },
  }));
});

const page = (offset: number, limit: number) => service.get(`/hotels?limit=${limit}&offset=${offset}`);
const idsOf = (text: string): string[] => JSON.parse(text).map(({ id }: { id: string }) => id);
/** Waits until a page has these ids. */
const shows = (offset: number, limit: number, ids: string[]) =>
  expect.poll(async () => idsOf((await page(offset, limit)).text)).toEqual(ids);
/** Deletes hotels without an announcement. */
const deleteUnannounced = (ids: string[]) =>
  withoutTriggers(service.sql, (sql) => sql`delete from hotels where id = any(${ids})`);
const queries = () =>
  service.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'postgres' });

describe('pages of hotels that are cached', () => {
  it('are served without a query, with their earlier tag and links', async () => {
    const first = await Promise.all([page(0, 100), page(195, 20)]);
    const before = await queries();
    for (let i = 0; i < 20; i++)
      for (const [at, [offset, limit]] of [
        [0, 100],
        [195, 20],
      ].entries()) {
        const { status, text, headers } = await page(offset!, limit!);
        const { etag, link } = first[at]!.headers;
        expect([status, text, headers.etag, headers.link]).toEqual([200, first[at]!.text, etag, link]);
      }
    // the service's own queries are counted too
    expect(await queries()).toBeLessThan(before + 20);
  });

  it('are all served on one connection, in order, with any pipelining', async () => {
    for (let offset = 0; offset < 200; offset += 20) await page(offset, 20);
    const requests = Array.from(
      { length: PIPELINED },
      (_, i) =>
        `GET /hotels?limit=20&offset=${i * 20} HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n\r\n`,
    );
    const answers = (await service.raw(requests.join(''), { half: true })).toString();
    const bodies = answers.split(/HTTP\/1\.1 200 OK\r\n/).slice(1);
    expect(bodies).toHaveLength(PIPELINED);
    for (const [i, body] of bodies.entries())
      expect(body).toContain(`[{"id":"h${String(i * 20).padStart(3, '0')}"`);
  });

  it('are as long as requested when a hotel is deleted whose deletion was not announced yet', async () => {
    await page(300, 2);
    await deleteUnannounced(['h303', 'h304']);
    const { text, headers } = await page(302, 2);
    expect(idsOf(text)).toEqual(['h302', 'h305']);
    expect(headers.link).toContain('offset=304>; rel="next"');
    expect(idsOf((await page(302, 2)).text)).toEqual(['h302', 'h305']);
    await insertHotels(service.sql, [{ id: 'h303' }, { id: 'h304' }]);
    await shows(302, 2, ['h302', 'h303']);
  });

  it('are as long as requested also when the next cached ids are deleted too', async () => {
    // the ids of the segments from h200 and h400 on; the last page is known when the list is divided into segments
    for (const offset of [400, 200])
      await expect
        .poll(async () => {
          const { headers } = await page(offset, 1);
          return headers.link;
        })
        .toContain('rel="last"');
    const deleted = Array.from({ length: 186 }, (_, i) => ({ id: `h${225 + i}` }));
    await deleteUnannounced(deleted.map(({ id }) => id));
    const { text } = await page(220, 20);
    await insertHotels(service.sql, deleted);
    expect(idsOf(text)).toEqual(Array.from({ length: 20 }, (_, i) => `h${i < 5 ? 220 + i : 406 + i}`));
    const present = Array.from({ length: 20 }, (_, i) => `h${220 + i}`);
    await shows(220, 20, present);
  });

  it('are answered while PostgreSQL is unavailable, and others are not', async () => {
    const held = await page(0, 50);
    await service.sql`insert into hotels (id, name) values ('z', 'last')`;
    await shows(HOTELS, 5, ['z']);
    await service.sql`update hotels set name = 'again' where id = 'h300'`;
    await expect
      .poll(async () => {
        const { text } = await page(300, 1);
        return text;
      })
      .toContain('again');
    proxy.blackout();
    try {
      await expect
        .poll(async () => {
          const { status } = await page(250, 100);
          return [status, await service.metric('hotel_api_breaker_open', { dependency: 'postgres' })];
        })
        .toEqual([503, 1]);
      for (let i = 0; i < 10; i++) {
        const { status, text } = await page(0, 50);
        expect([status, text]).toEqual([200, held.text]);
      }
    } finally {
      proxy.heal();
    }
  });
});

describe('the whole list', () => {
  /** Orders that differ between bytes, UTF-16 units and languages. */
  const STARTS = [...'AZazÄäé', 'e\u0301', ..."ß中\uffee😀\u{10fffd} '%"];

  /** Returns the ids of all pages, and those of the table in the order of their bytes. */
  async function both(): Promise<[listed: string[], table: string[]]> {
    const listed: string[] = [];
    for (let found = 100; found === 100; ) {
      const ids = idsOf((await page(listed.length, 100)).text);
      listed.push(...ids);
      found = ids.length;
    }
    const rows = await service.sql`select id from hotels order by id collate "C"`;
    return [listed, rows.map(({ id }) => id)];
  }
  const isExact = async () => {
    const [listed, table] = await both();
    return listed.join() === table.join();
  };

  it('follows the order of bytes, for ids of any characters, and is exact after any changes', async () => {
    const ids = Array.from({ length: 3_000 }, (_, i) => ({
      id: `${STARTS[(i * 7) % STARTS.length]}${(i * 7919) % 10_007}-${i}`,
    }));
    await insertHotels(service.sql, ids);
    await expect.poll(isExact).toBe(true);
    for (const change of [
      "insert into hotels (id, name) values (' 0', 'x'), (U&'\\+10FFFE', 'x')",
      'delete from hotels where id in (select id from hotels order by id collate "C" offset 900 limit 600)',
      `update hotels set id = '😀renamed' where id = (select min(id collate "C") from hotels)`,
      'truncate hotels',
    ]) {
      await service.sql.unsafe(change);
      await expect.poll(isExact).toBe(true);
    }
  });
});
