import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { copyIn, copyRow } from '../common/copy.ts';
import { BEGINNING, type Line, readLines } from '../common/lines.ts';
import { bytes, count, Progress } from '../common/progress.ts';
import { rejectedPath, writeRejected } from '../common/rejects.ts';
import { withDatabase } from '../common/session.ts';
import { Source } from '../common/source.ts';

const MAX_ID_CHARACTERS = 255;
/** Maximum number of printed lines of each kind; the files contain all. */
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
  /** files with the unknown and the rejected lines, if there are any */
  files: string[];
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
  { action, dryRun = false }: { action: 'add' | 'remove'; dryRun?: boolean },
): Promise<Outcome> {
  const source = await Source.open(path);
  const progress = new Progress(`reading ${source.name}`, source.sizeBytes, bytes);
  try {
    return await withDatabase((sql) => change(sql, source, progress, collection, action, dryRun));
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
  dryRun: boolean,
): Promise<Outcome> {
  const outcome = await sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = 0`;
    await requireCollection(transaction, collection);
    await transaction`
      create temporary table named (line bigint, starts_at float8, ends_at float8, fault text, id text) on commit drop`;
    const format = await stage(transaction, source, progress);
    progress.stop();
    await transaction`analyze named`;
    const files: string[] = [];
    const keep = async (kind: 'rejected' | 'unknown', lines: string) => {
      const rows = await transaction.unsafe<{ line: number; fault: string }[]>(
        `select line::float8, fault from ${lines} where fault is not null order by line`,
      );
      if (rows.length === 0) return 0;
      for (const { line, fault } of rows.slice(0, FIRST_LINES)) progress.log(`line ${line}: ${fault}`);
      if (rows.length > FIRST_LINES) progress.log(`and ${count('more line')(rows.length - FIRST_LINES)}`);
      const path = rejectedPath(source, format, kind);
      await writeRejected(transaction, lines, source, path);
      files.push(path);
      return rows.length;
    };
    const rejected = await keep('rejected', 'named');
    const unknown = await keep(
      'unknown',
      `(
        select distinct on (id) line, starts_at, ends_at, 'no hotel has the id ' || to_json(id)::text as fault
        from named where id is not null and not exists (select from hotels where hotels.id = named.id) order by id, line
      ) as without_hotel`,
    );
    const [{ all, inside }] = await transaction<[{ all: number; inside: number }]>`
      select count(*)::float8 as all, count(hotel_id)::float8 as inside
      from (select distinct id from named where id is not null) as named
        left join collection_hotels on hotel_id = named.id and collection_id = ${collection}`;
    const changed = action === 'add' ? all - inside : inside;
    if (changed > 0 && !dryRun)
      await (action === 'add'
        ? transaction`
            insert into collection_hotels (collection_id, hotel_id)
            select distinct ${collection}, id from named where id is not null order by id on conflict do nothing`
        : transaction`
            delete from collection_hotels where collection_id = ${collection} and hotel_id in (select id from named)`);
    return { changed, unchanged: all - changed, unknown, rejected, files };
  });
  // until it is analyzed, lists of a large new collection sort all of its members
  if (outcome.changed >= MANY_MEMBERS && !dryRun) await sql`analyze collection_hotels`;
  return outcome;
}

/** Reads the lines into the table `named`; returns the ending for the names of files with such lines. */
async function stage(transaction: TransactionSql, source: Source, progress: Progress): Promise<string> {
  let format = 'txt';
  async function* rows(): AsyncGenerator<string> {
    for await (const lines of readLines(source.read(0), BEGINNING)) {
      progress.at(source.positionBytes);
      let text = '';
      for (const line of lines) {
        if (line.text?.trim() === '') continue;
        if (line.text?.trimStart().startsWith('{')) format = 'ndjson';
        const { id, fault } = readId(line);
        text += copyRow([line.number, line.start, line.end, fault, id]);
      }
      if (text !== '') yield text;
    }
  }
  await copyIn(transaction, 'copy named from stdin', rows);
  return format;
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
