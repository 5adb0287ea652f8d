import type { Sql } from 'postgres';
import { FIELDS_OF_ROW, type HotelRow as StoredHotel } from '../../src/hotels/row.ts';

/** Row of `hotels` by its names in the API; dates are YYYY-MM-DD. */
export type HotelRow = Omit<StoredHotel, 'registry_id'> & {
  registry_id: number | bigint | string | null;
};

let made = 0;

/** Inserts hotels in one statement with default ids and names; returns their ids. */
export async function insertHotels(sql: Sql, hotels: Partial<HotelRow>[]): Promise<string[]> {
  const rows = hotels.map((hotel) => {
    const id = hotel.id ?? `hotel-${++made}`;
    const registryId = hotel.registry_id === undefined ? null : hotel.registry_id;
    return {
      name: `Hotel ${id}`,
      images: [],
      ...hotel,
      id,
      registry_id: registryId === null ? null : String(registryId),
    };
  });
  const columns = sql(FIELDS_OF_ROW);
  await sql`insert into hotels (${columns})
    select ${columns} from jsonb_populate_recordset(null::hotels, ${sql.json(rows as never)})`;
  return rows.map(({ id }) => id);
}
