import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';

const UNIQUE_VIOLATION = '23505';

/** Collection in the output of the command line. */
export interface Collection {
  id: string;
  name: string;
  /** members that exist as hotels, which a key of the collection sees */
  hotels: number;
  /** members without a hotel */
  unknown: number;
  /** its keys that are neither revoked nor expired */
  keys: number;
}

/** Creates a collection without hotels. Throws a `Failure` if the id exists. */
export async function createCollection(sql: Sql, id: string, name: string): Promise<void> {
  try {
    await sql`insert into collections (id, name) values (${id}, ${name})`;
  } catch (error) {
    if ((error as { code?: string }).code !== UNIQUE_VIOLATION) throw error;
    throw new Failure(
      `A collection with the id ${JSON.stringify(id)} exists already. See it with: hotel-api collections show ${id}`,
    );
  }
}

/** Returns all collections, or the one with this id, ordered by id. */
export async function listCollections(sql: Sql, id: string | null = null): Promise<Collection[]> {
  const rows = await sql<Collection[]>`
    select id, name, hotels::float8, (members - hotels)::float8 as unknown, keys::float8
    from collections,
      lateral (
        select count(*) as members, count(hotels.id) as hotels
        from collection_hotels left join hotels on hotels.id = hotel_id where collection_id = collections.id
      ) as of_hotels,
      lateral (
        select count(*) as keys from api_keys
        where collection_id = collections.id and revoked_at is null and coalesce(expires_at > now(), true)
      ) as of_keys
    where ${id}::text is null or id = ${id}
    order by id collate "C"`;
  return [...rows];
}

/** Throws a `Failure` if there is no collection with this id. */
export async function requireCollection(sql: Sql | TransactionSql, id: string): Promise<void> {
  const [found] = await sql`select from collections where id = ${id}`;
  if (!found) throw unknownCollection(id);
}

/** Deletes a collection and returns its last state; its keys see no hotels afterwards. Throws a `Failure` for an unknown id. */
export async function deleteCollection(sql: Sql, id: string, dryRun: boolean): Promise<Collection> {
  const [collection] = await listCollections(sql, id);
  if (!collection) throw unknownCollection(id);
  if (!dryRun) await sql`delete from collections where id = ${id}`;
  return collection;
}

export function unknownCollection(id: string): Failure {
  return new Failure(
    `There is no collection with the id ${JSON.stringify(id)}. List them: hotel-api collections list`,
  );
}
