import { expect, it } from 'vitest';
import { openDatabase, type Purpose } from '../../src/postgres/connect.ts';
import { freshDatabase } from '../support/database.ts';

const LONG_LIVED: Purpose[] = [{ kind: 'serve', statementTimeoutMs: 500, pooled: false }, { kind: 'listen' }];

it.each(LONG_LIVED)(
  'PostgreSQL closes a connection to $kind within 25 s after its client disappeared',
  async (purpose) => {
    const { url } = await freshDatabase();
    const sql = openDatabase(url, 1, purpose);
    const [row] = await sql<{ seconds: number }[]>`
    select current_setting('tcp_keepalives_idle')::int
      + current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int as seconds`;
    await sql.end();
    expect(row).toEqual({ seconds: 25 });
  },
);

const ALL: Purpose[] = [
  ...LONG_LIVED,
  { kind: 'invalidate', onClose: () => {} },
  // commands have another login; its settings are the same
  { kind: 'operate' },
];

it.each(ALL)('queries of a connection to $kind are never compiled', async (purpose) => {
  const { url } = await freshDatabase();
  const sql = openDatabase(url, 1, purpose);
  const [row] = await sql<{ jit: string }[]>`show jit`;
  await sql.end();
  expect(row).toEqual({ jit: 'off' });
});
