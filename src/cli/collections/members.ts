import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { type Line, readLines } from '../common/lines.ts';
import { bytes, count, Progress } from '../common/progress.ts';
import { withDatabase } from '../common/session.ts';
import { Source } from '../common/source.ts';

const MAX_ID_CHARACTERS = 255;
/** Maximum number of printed lines of each kind. */
const FIRST_LINES = 20;
/** Number of changes from which the statistics of the table are outdated. */
const MANY_MEMBERS = 1_000;

/** Result for the hotels in a file; each counts once. */
interface Outcome {
  /** hotels added or removed */
  changed: number;
  unchanged: number;
  /** ids without a hotel */
  unknown: number;
  /** lines without an id */
  rejected: number;
}

/**
 * Throws a `Failure` if there is no collection with this id. It remains until the transaction of `sql` ends, if there is
 * one.
 */
export async function requireCollection(sql: Sql | TransactionSql, id: string): Promise<void> {
  const [found] = await sql`select from collections where id = ${id} for key share`;
  if (found) return;
  throw new Failure(
    `There is no collection with the id ${JSON.stringify(id)}. List them: hotel-api collections list`,
  );
}

/**
 * Adds the hotels in a file to a collection, or removes them, in one transaction. An id without a hotel is treated like
 * any other, and reported. Throws a `Failure` if the collection or the file is unknown.
 */
export async function changeMembers(
  collection: string,
  path: string,
  action: 'add' | 'remove',
): Promise<Outcome> {
  const source = await Source.open(path);
  const progress = new Progress(`reading ${source.name}`, source.sizeBytes, bytes);
  try {
    return await withDatabase((sql) => change(sql, source, progress, collection, action));
  } finally {
    progress.stop();
    await source.close();
  }
}

async function change(
  sql: Sql,
  source: Source,
  progress: Progress,
  collection: string,
  action: 'add' | 'remove',
): Promise<Outcome> {
  const rejected = new Map<number, string>();
  /** the ids, with their first lines */
  const lineOf = new Map<string, number>();
  for await (const lines of readLines(source.read())) {
    progress.at(source.positionBytes);
    for (const line of lines) {
      if (line.text?.trim() === '') continue;
      const { id, fault } = readId(line);
      if (id === undefined) rejected.set(line.number, fault!);
      else if (!lineOf.has(id)) lineOf.set(id, line.number);
    }
  }
  const ids = [...lineOf.keys()];
  const outcome = await sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = 0`;
    await requireCollection(transaction, collection);
    const unknown = await transaction<{ id: string }[]>`
      select id from unnest(${ids}::text[]) as named (id) where not exists (select from hotels where hotels.id = named.id)`;
    const { count: changed } = await (action === 'add'
      ? transaction`
          insert into collection_hotels (collection_id, hotel_id)
          select ${collection}, id from unnest(${ids}::text[]) as named (id) order by id on conflict do nothing`
      : transaction`
          delete from collection_hotels where collection_id = ${collection} and hotel_id = any(${ids}::text[])`);
    report(progress, rejected);
    report(
      progress,
      new Map(unknown.map(({ id }) => [lineOf.get(id)!, `no hotel has the id ${JSON.stringify(id)}`])),
    );
    const counts = { unknown: unknown.length, rejected: rejected.size };
    return { changed, unchanged: ids.length - changed, ...counts };
  });
  // until it is analyzed, lists of a large new collection sort all of its members
  if (outcome.changed >= MANY_MEMBERS) await sql`analyze collection_hotels`;
  return outcome;
}

/** Prints the first lines with a fault, and how many there are besides. */
function report(progress: Progress, faults: Map<number, string>): void {
  for (const [line, fault] of [...faults].slice(0, FIRST_LINES)) progress.log(`line ${line}: ${fault}`);
  if (faults.size > FIRST_LINES) progress.log(`and ${count('more line')(faults.size - FIRST_LINES)}`);
}

/** Reads the id of a hotel, which is the `id` of a JSON object or the trimmed line itself, or the fault of the line. */
function readId({ text, fault }: Line): { id?: string; fault?: string } {
  if (text === undefined) return { fault };
  let id = text.trim();
  if (id.startsWith('{')) {
    try {
      id = JSON.parse(text).id;
    } catch {
      return { fault: 'the line is neither JSON nor a hotel id' };
    }
    if (typeof id !== 'string') return { fault: '"id" must be a string' };
  }
  const length = [...id].length;
  if (length < 1 || length > MAX_ID_CHARACTERS || id.includes('\0') || !id.isWellFormed())
    return { fault: `an id must have 1 to ${MAX_ID_CHARACTERS} characters` };
  return { id };
}
