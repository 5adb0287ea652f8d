import { beforeAll, describe, expect, it } from 'vitest';
import { insertHotels } from '../support/hotel.ts';
import { idsOf } from '../support/ids.ts';
import { type Service, startService } from '../support/service.ts';
import { untilEqual } from '../support/stall-detector.ts';

const TIMEOUT_MS = 1_000;
const LIMIT = 100;
/** Orders that differ between bytes, UTF-16 units and languages. */
const STARTS = [...'AZazÄäé', 'e\u0301', ..."ß中\uffee😀\u{10fffd} '%"];

let service: Service;
let made = 0;

/** Inserts an id that occurs nowhere else, anywhere in the list. */
function freshId(): string {
  made++;
  return `${STARTS[(made * 7) % STARTS.length]}${(made * 7919) % 10_007}-${made}`;
}

/** Returns so many rows with ids that occur nowhere else. */
const fresh = (count: number) => Array.from({ length: count }, () => ({ id: freshId() }));

beforeAll(async () => {
  service = await startService({ redis: false, workers: 2, hotels: fresh(6_000) });
});

async function pageAt(offset: number): Promise<string[]> {
  return idsOf(await service.get(`/hotels?limit=${LIMIT}&offset=${offset}`));
}

/** Returns all ids in the order of their bytes, according to PostgreSQL. */
async function allIds(): Promise<string[]> {
  return (await service.sql`select id from hotels order by id collate "C"`).map(({ id }) => id);
}

/** Returns the offsets at which a worker serves another page than the table contains. */
async function wrongOffsets(): Promise<number[]> {
  const ids = await allIds();
  const fromEnd = [-101, -1, 0, 50].map((offset) => ids.length + offset);
  const offsets = [0, 399, 400, 401, 1_234, 3_000, 4_567, ...fromEnd];
  const wrong = offsets.map(async (offset) => {
    const expected = JSON.stringify(ids.slice(offset, offset + LIMIT));
    // on two connections or more, so that the attempts reach both workers
    const pages = await Promise.all([pageAt(offset), pageAt(offset), pageAt(offset)]);
    return pages.some((page) => JSON.stringify(page) !== expected) ? [offset] : [];
  });
  return (await Promise.all(wrong)).flat();
}

const becomeExact = () => untilEqual(TIMEOUT_MS, wrongOffsets, []);

describe('deep pages', () => {
  it('follow the order of bytes, for ids of any characters', async () => {
    // the first one begins the background task that divides the list
    expect(await wrongOffsets()).toEqual([]);
    await becomeExact();
  });

  it('contain every hotel once in a full traversal', async () => {
    const traversed: string[] = [];
    for (let offset = 0; ; offset += LIMIT) {
      const page = await pageAt(offset);
      traversed.push(...page);
      if (page.length < LIMIT) break;
    }
    expect(traversed).toEqual(await allIds());
  });

  it.each([
    ['one insert at the front', () => service.sql`insert into hotels (id, name) values (' 0', 'x')`],
    ['one insert at the end', () => service.sql`insert into hotels (id, name) values (${'\u{10fffe}'}, 'x')`],
    [
      'a delete of a mark',
      () =>
        service.sql`delete from hotels where id = (select id from hotels order by id collate "C" offset 200 limit 1)`,
    ],
    [
      'a delete of three segments',
      () =>
        service.sql`delete from hotels where id in (select id from hotels order by id collate "C" offset 900 limit 600)`,
    ],
    ['two inserts in one statement', () => insertHotels(service.sql, fresh(2))],
    ['an update of nothing that moves', () => service.sql`update hotels set name = 'y' where id like 'a%'`],
    [
      'a change of an id',
      () =>
        service.sql`update hotels set id = '😀renamed' where id = (select min(id collate "C") from hotels)`,
    ],
    [
      'an insert that is rolled back',
      () =>
        service.sql
          .begin(async (sql) => {
            await sql`insert into hotels (id, name) values ('0 never', 'x')`;
            throw new Error('back');
          })
          .catch(() => {}),
    ],
  ])('are exact within a second of %s', async (_, change) => {
    await change();
    await becomeExact();
  });

  it('are pages of the list during inserts and deletes, and exact within a second of their end', async () => {
    const ids = await allIds();
    let over = false;
    let pages = 0;
    const writing = Promise.all(
      [0, 1, 2].map(async (writer) => {
        for (let i = 0; i < 60 || pages < 20; i++) {
          if (i % 3 === 2)
            await service.sql`delete from hotels where id = ${ids[(i * 97 + writer * 1_009) % ids.length]!}`;
          else await insertHotels(service.sql, fresh(1 + (i % 5)));
        }
      }),
    ).finally(() => {
      over = true;
    });
    while (!over) {
      const page = await pageAt(500 + ((pages++ * 613) % 5_000));
      const sorted = [...page].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      expect(page).toEqual(sorted);
      expect(new Set(page).size).toBe(page.length);
    }
    await writing;
    await becomeExact();
  });

  it('are exact within a second of a truncation and a new list', async () => {
    await service.sql`truncate hotels`;
    await untilEqual(TIMEOUT_MS, () => pageAt(500), []);
    await insertHotels(service.sql, fresh(5_000));
    await becomeExact();
  });
});
