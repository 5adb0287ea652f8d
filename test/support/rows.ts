import type { Sql } from 'postgres';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { EXAMPLE_HOTEL } from '../../src/hotels/hotel.ts';
import { FIELDS_OF_ROW, type HotelRow as StoredHotel } from '../../src/hotels/row.ts';

/** Row of `hotels` by its names in the API; dates are YYYY-MM-DD. */
export type HotelRow = Omit<StoredHotel, 'registry_id'> & {
  registry_id: number | bigint | string | null;
};

let made = 0;

/** Inserts hotels in one statement with default ids and names; returns their ids. */
export async function insertHotels(sql: Sql, hotels: Partial<HotelRow>[]): Promise<string[]> {
  const rows = hotels.map(({ id = `hotel-${++made}`, registry_id = null, ...hotel }) => ({
    name: `Hotel ${id}`,
    images: [],
    ...hotel,
    id,
    registry_id: registry_id === null ? null : String(registry_id),
  }));
  const columns = sql(FIELDS_OF_ROW);
  await sql`insert into hotels (${columns})
    select ${columns} from jsonb_populate_recordset(null::hotels, ${sql.json(rows as never)})`;
  return rows.map(({ id }) => id);
}

/** Returns the hotel of the API documentation's examples as a row. */
export function exampleRow(): HotelRow {
  const { certified: _, ...row } = EXAMPLE_HOTEL;
  return row;
}

/** Creates a key with these scopes, of a collection or none, and stores its hash. */
export async function insertKey(
  sql: Sql,
  scopes: string[],
  collection: string | null = null,
): Promise<string> {
  const key = makeKey();
  const hash = hashOf(key);
  await sql`insert into api_keys (id, name, key_sha256, scopes, collection_id)
    values (${`test-${hash.slice(0, 12)}`}, 'test', ${Buffer.from(hash, 'hex')}, ${scopes}, ${collection})`;
  return key;
}

/** Changes columns of a key. */
export async function changeKey(sql: Sql, key: string, change: Record<string, unknown>): Promise<void> {
  await sql`update api_keys set ${sql(change as never)} where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
}

/** Creates a collection of these hotels, which need not exist. */
export async function insertCollection(sql: Sql, id: string, hotels: string[] = []): Promise<void> {
  await sql`insert into collections (id, name) values (${id}, 'Collection')`;
  await addToCollection(sql, id, hotels);
}

/** Adds hotels to a collection by one statement, which keeps present members. */
export async function addToCollection(sql: Sql, id: string, hotels: string[]): Promise<void> {
  await sql`insert into collection_hotels (collection_id, hotel_id)
    select ${id}, hotel_id from unnest(${hotels}::text[]) as hotel_id on conflict do nothing`;
}

/** Removes hotels from a collection by one statement. */
export async function removeFromCollection(sql: Sql, id: string, hotels: string[]): Promise<void> {
  await sql`delete from collection_hotels where collection_id = ${id} and hotel_id = any(${hotels}::text[])`;
}

/** Runs `work` without the triggers of hotels and API keys, as restores with --disable-triggers do. */
export async function withoutTriggers<T>(sql: Sql, work: (sql: Sql) => Promise<T>): Promise<T> {
  return (await sql.begin(async (transaction) => {
    for (const table of ['hotels', 'api_keys'])
      await transaction`alter table ${transaction(table)} disable trigger user`;
    const result = await work(transaction as unknown as Sql);
    await transaction`select hotel_api_correct_triggers()`;
    return result;
  })) as T;
}
