import type { Sql } from 'postgres';

/** Creates a collection of these hotels, which need not exist. */
export async function insertCollection(sql: Sql, id: string, hotels: string[] = []): Promise<void> {
  await sql`insert into collections (id, name) values (${id}, ${`Collection ${id}`})`;
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
