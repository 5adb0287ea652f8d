import type { Sql } from 'postgres';
import { KEY_COLUMNS, type KeyRow, keyOf, type VersionedKey } from '../auth/key-record.ts';
import { encodeHotel } from '../hotels/encode.ts';
import type { Entry } from '../hotels/entry.ts';
import { HOTEL_COLUMNS, type HotelRow } from '../hotels/row.ts';
import { completed } from '../postgres/connect.ts';

/** Reads the hotels with these ids, encoded with today's certification. */
export async function readHotels(sql: Sql, ids: string[]): Promise<Map<string, Entry>> {
  const rows = completed(
    await sql.unsafe<HotelRow[]>(`select ${HOTEL_COLUMNS} from hotels where id = any($1::text[])`, [ids], {
      prepare: true,
    }),
  );
  const nowMs = Date.now();
  return new Map(rows.map((row) => [row.id, encodeHotel(row, nowMs)]));
}

/** Reads the API keys with these hashes. */
export async function readKeys(sql: Sql, sha256s: string[]): Promise<Map<string, VersionedKey>> {
  const rows = completed(
    await sql.unsafe<KeyRow[]>(
      `select ${KEY_COLUMNS} from api_keys where key_sha256 = any(select decode(x, 'hex') from unnest($1::text[]) as x)`,
      [sha256s],
      { prepare: true },
    ),
  );
  return new Map(rows.map((row) => [row.sha256, keyOf(row)]));
}
