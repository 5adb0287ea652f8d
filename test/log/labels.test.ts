import { expect, it } from 'vitest';
import { PageReader } from '../../src/changes/page-reader.ts';
import { HotelSizes } from '../../src/hotels/hotel-sizes.ts';
import { EventLoop } from '../../src/lib/event-loop.ts';
import { Postgres } from '../../src/postgres/client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { readLabelled } from '../../src/postgres/origin.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { freshDatabase } from '../support/database.ts';
import { readLogState } from '../support/log-state.ts';
import { sequence } from './sequenced.ts';

it('what was read from a copy is rejected while the log of the original is followed, although both show one position', async () => {
  const original = await freshDatabase();
  await original.sql`insert into hotels (id, name) values ('one', 'Hotel')`;
  const position = await sequence(original.sql);
  const { history, server } = await readLogState(original.sql);
  // a template must have no connections
  await original.sql.end();
  const copy = await freshDatabase(original.name);
  await copy.sql`update hotels set name = 'Changed'`;
  const read = async (url: string, followed: string) => {
    const postgres = new Postgres({
      open: () => openDatabase(url, 1, { kind: 'follow', pooled: false }),
      ...{ connections: 1, queueLimit: 10, timeoutMs: 60_000 },
      onBreaker: () => {},
    });
    closeAtEnd('PostgreSQL', () => postgres.close());
    const applied = { history, server: followed, position };
    const pages = new PageReader(postgres, () => followed, {} as never, new EventLoop(), new HotelSizes());
    const first = { token: undefined, limit: 1, view: 'full', collection: null, owner: 'a' } as const;
    const query = 'select name from hotels';
    return [
      (await readLabelled<{ name: string }>(postgres, () => applied, query, []))?.rows[0]?.name,
      await pages.read(first, 0).then((page) => page !== 'expired' && page.next.position, String),
    ];
  };
  const lost = 'Unavailable: the log is not the one that is followed';
  expect(await read(original.url, server)).toEqual(['Hotel', position]);
  expect(await read(copy.url, server)).toEqual([undefined, lost]);
  // an instance that follows the copy may read it
  const { server: ofCopy } = await readLogState(copy.sql);
  expect(await read(copy.url, ofCopy)).toEqual(['Changed', position]);
  expect(await read(original.url, ofCopy)).toEqual([undefined, lost]);
});

it('a log that is rewritten by VACUUM FULL or CLUSTER is still that of the same server', async () => {
  const { sql } = await freshDatabase();
  const before = await readLogState(sql);
  // without names it locks the catalogs of the whole server, on which new connections of all tests wait
  await sql`vacuum full hotel_api_log, hotel_api_queue, hotels`;
  await sql`cluster hotel_api_log using hotel_api_log_pkey`;
  expect(await readLogState(sql)).toEqual(before);
});
