import type { Sql } from 'postgres';

/** Condition that a row of pg_class has a name of the schema's tables. */
export const HAS_OWN_NAME = `(relname in ('hotels', 'api_keys', 'collections', 'collection_hotels', 'schema_migrations')
  or starts_with(relname, 'hotel_api_'))`;

/** Condition that a row of pg_class is a table of the schema. */
export const IS_OWN_TABLE = `relnamespace = (select relnamespace from pg_class where oid = to_regclass('hotels'))
  and relkind in ('r', 'p') and ${HAS_OWN_NAME}`;

/**
 * Updates the planner's statistics of the tables of the schema, up to the first autovacuum. Tables that are locked, as by
 * another process that does this, and those of another owner are skipped.
 */
export async function analyzeTables(sql: Sql): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    select oid::regclass::text as name from pg_class where ${sql.unsafe(IS_OWN_TABLE)} order by relname`;
  if (tables.length > 0)
    await sql.unsafe(`analyze (skip_locked) ${tables.map(({ name }) => name).join(', ')}`);
}
