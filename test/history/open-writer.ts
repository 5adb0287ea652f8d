import postgres, { type Sql } from 'postgres';
import { ARRAYS } from '../../src/postgres/connect.ts';
import { closeAtEnd } from '../support/cleanup.ts';

/** Opens connections of writers, or one that is watched. */
export function openWriter(url: string, max = 4, onclose = () => {}): Sql {
  const sql = postgres(url, {
    max,
    onclose,
    onnotice: () => {},
    backoff: () => 0.05,
    connect_timeout: 5,
    // a connection lost while it fetches types would end the process
    fetch_types: false,
    types: ARRAYS,
    connection: { application_name: 'history' },
  });
  if (max > 1) closeAtEnd('writers', () => sql.end({ timeout: 1 }));
  return sql as unknown as Sql;
}
