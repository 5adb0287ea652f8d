import { expect, it } from 'vitest';
import { BEGIN_WRITING, openDatabase, type Purpose } from '../../src/postgres/connect.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { freshDatabase } from '../support/database.ts';

it.each<[Purpose, seconds: number]>([
  [{ kind: 'serve', deadlineMs: 250, pooled: false }, 25],
  [{ kind: 'follow', pooled: false }, 25],
  // commands have another login; its settings are the same
  [{ kind: 'operate' }, expect.any(Number)],
])(
  'a connection for $kind never compiles queries; PostgreSQL closes a long one within 25 s after its client disappeared',
  async (purpose, seconds) => {
    const { url } = await freshDatabase();
    const sql = openDatabase(url, 1, purpose);
    const [row] = await sql`select current_setting('jit') as jit, current_setting('tcp_keepalives_idle')::int
      + current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int as seconds`;
    await sql.end();
    expect(row).toEqual({ jit: 'off', seconds });
  },
);

it.each([
  ['directly', false],
  ['through a pooler, where the login is read only', true],
])('a transaction sent %s writes and returns its rows, or writes nothing if it fails', async (_, pooled) => {
  const { ownerUrl, sql: owner } = await freshDatabase();
  await owner`create table written (n integer primary key)`;
  await owner`grant insert, select on written to hotel_api_serve`;
  const sql = openDatabase(`${ownerUrl}?default_transaction_read_only=on`, 1, { kind: 'follow', pooled });
  closeAtEnd('a connection', () => sql.end());
  const write = async (text: string) => {
    const results = await sql.unsafe(`${BEGIN_WRITING}; ${text}; commit`).simple();
    return (results as unknown as object[][]).flat();
  };
  const failed = write('insert into written values (1); select 1 / 0');
  await expect(failed).rejects.toMatchObject({ code: '22012' });
  await sql`rollback`;
  const text = `insert into written values (1) returning n, current_setting('lock_timeout') as waits`;
  expect(await write(text)).toEqual([{ n: 1, waits: '5s' }]);
  expect(await owner`select n from written`).toEqual([{ n: 1 }]);
});
