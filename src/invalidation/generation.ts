import type { Sql } from 'postgres';

/** Both in base 36. */
export interface Generation {
  database: string;
  generation: string;
}

/** What keys in Redis begin with: the database's own number, and the generation that is in force. */
export async function currentGeneration(sql: Sql): Promise<Generation> {
  const [row] = await sql<{ start: number; last: number }[]>`
    select start_value::float8 as start, coalesce(last_value, start_value)::float8 as last
    from pg_sequences where schemaname = current_schema() and sequencename = 'hotel_api_generations'`;
  return { database: row!.start.toString(36), generation: row!.last.toString(36) };
}

/** Draws a generation that was never in force. */
export async function nextGeneration(sql: Sql): Promise<string> {
  const [row] = await sql<{ next: number }[]>`select nextval('hotel_api_generations')::float8 as next`;
  return row!.next.toString(36);
}

/** The one that was drawn later: a term that does not know yet that it is over still speaks of an earlier one. */
export function laterGeneration(one: string, other: string): string {
  if (one.length !== other.length) return one.length > other.length ? one : other;
  return one > other ? one : other;
}
