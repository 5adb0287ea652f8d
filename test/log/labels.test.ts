import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { freshDatabase } from '../support/database.ts';
import { sequence, session } from './sequenced.ts';

it('a label shows no position that its rows lack, whatever isolation a transaction has', async () => {
  const { sql, ownerUrl } = await freshDatabase();
  await sequence(sql);
  const [one, two] = [session(ownerUrl), session(ownerUrl)];
  const load = async (from: Sql) => {
    const [row] = await from<[{ label: number; ids: string[] }]>`
      select (select position from hotel_api_log order by position desc limit 1)::float8 as label,
        array(select id from hotels order by id) as ids`;
    return row;
  };
  await sql`insert into hotels (id, name) values ('one', 'Hotel')`;
  const first = await sequence(sql);
  // its snapshot stays, its label too
  await one.unsafe('begin isolation level repeatable read').simple();
  expect(await load(one)).toEqual({ label: first, ids: ['one'] });
  await sql`insert into hotels (id, name) values ('two', 'Hotel')`;
  // committed without a position: the label is too low, which costs a miss
  expect(await load(two)).toEqual({ label: first, ids: ['one', 'two'] });
  const second = await sequence(sql);
  expect(await load(one)).toEqual({ label: first, ids: ['one'] });
  expect(await load(two)).toEqual({ label: second, ids: ['one', 'two'] });
  // an insertion that waited behind a deletion of the same id
  await one`rollback`;
  await one`begin`;
  await one`delete from hotels where id = 'two'`;
  const waiting = two`insert into hotels (id, name) values ('two', 'Again')`.then(() => {});
  await one`commit`;
  await waiting;
  const third = await sequence(sql);
  expect(await load(two)).toEqual({ label: third, ids: ['one', 'two'] });
});
