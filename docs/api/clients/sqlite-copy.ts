// A copy of all hotels in SQLite, whose channel and registry ids are unique: Node 22.18 or newer. Another database needs
// the same steps. Keep it up to date with: const db = new DatabaseSync('hotels.db'); for (;;) await updateCopy(api, db, 30);
import type { DatabaseSync } from 'node:sqlite';
import { type ChangePage, type HotelApi, HotelApiError } from './client.ts';

const SCHEMA = `
  create table if not exists hotels (
    id text primary key,
    channel_id text unique,
    registry_id integer unique,
    hotel text not null -- the whole hotel as JSON; add the columns that you query
  );
  -- the changes since the copy was last consistent
  create table if not exists staged (id text primary key, hotel text);
  -- the token with which the copy goes on, and whether the staged hotels are all hotels
  create table if not exists progress (next text, is_whole integer not null);
  insert into progress select null, 1 where not exists (select * from progress);
`;

/** Deletes before it inserts, so an id may go from one changed hotel to another. */
const APPLY = `
  delete from hotels where (select is_whole from progress) or id in (select id from staged);
  insert into hotels
    select id, json_extract(hotel, '$.channel_id'), json_extract(hotel, '$.registry_id'), hotel
    from staged where hotel is not null;
  delete from staged;
  update progress set is_whole = 0;
`;

/**
 * Begins a copy, or brings it up to date; waits up to `waitS` seconds where nothing has changed yet. Pages are staged until
 * `more` is false, because before that two hotels may hold the same channel or registry id. They are then applied in one
 * transaction, so readers always see a consistent copy: the old one while hotels are copied anew after 410, too. After an
 * error, call it again: it goes on where it was.
 */
export async function updateCopy(api: HotelApi, db: DatabaseSync, waitS = 0): Promise<void> {
  db.exec(`pragma busy_timeout = 10000; pragma journal_mode = wal; ${SCHEMA}`);
  for (let more = true; more; ) {
    const { next } = db.prepare('select next from progress').get() as { next: string | null };
    let page: ChangePage;
    try {
      page = await api.changes(next ?? undefined, waitS);
    } catch (error) {
      const isExpired = error instanceof HotelApiError && error.code === 'token_expired';
      if (!isExpired || next === null) throw error;
      inTransaction(db, () => db.exec('delete from staged; update progress set next = null, is_whole = 1'));
      continue;
    }
    more = page.more;
    inTransaction(db, () => {
      const stage = db.prepare('insert or replace into staged values (?, ?)');
      for (const { id, hotel } of page.changes) stage.run(id, hotel && JSON.stringify(hotel));
      if (!page.more) db.exec(APPLY);
      db.prepare('update progress set next = ?').run(page.next);
    });
  }
}

function inTransaction(db: DatabaseSync, work: () => void): void {
  db.exec('begin immediate');
  try {
    work();
    db.exec('commit');
  } catch (error) {
    db.exec('rollback');
    throw error;
  }
}
