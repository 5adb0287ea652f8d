import type { Sql, TransactionSql } from 'postgres';
import { MAX_ID_CHARACTERS } from '../hotels/namespace.ts';
import { Failure } from '../lib/failure.ts';
import { parseText } from './common/arguments.ts';
import type { CliCommand } from './common/help.ts';
import { bytes, Progress } from './common/progress.ts';
import { onDatabase } from './common/session.ts';
import { type Line, Source } from './common/source.ts';

/** Number of changes from which the statistics of the table are outdated. */
const MANY_MEMBERS = 1_000;
const FORM = '{"id","name","hotels","unknown","keys"}';

export function addCommand(program: CliCommand): void {
  const collections = program
    .command('collections')
    .description('create, list and fill collections: the hotels that a key of a collection sees')
    .examples(
      'hotel-api collections create acme --name "Acme Travel"',
      'hotel-api collections add acme hotels.txt',
      'hotel-api keys create --name "Acme Travel" --collection acme',
    );

  collections
    .command('create')
    .description('create a collection without hotels')
    .argument('<id>', 'id of the collection: 1 to 255 characters', parseText(MAX_ID_CHARACTERS))
    .requiredOption('--name <name>', 'name of the collection', parseText(200))
    .json('{"id","name"}')
    .examples('hotel-api collections create acme --name "Acme Travel"')
    .action(onDatabase(create));

  collections
    .command('list')
    .description('list all collections with the number of their hotels and valid keys')
    .json(`an array of ${FORM}`)
    .examples('hotel-api collections list', 'hotel-api collections list --json')
    .action(onDatabase(async (sql) => ({ printed: await read(sql) })));

  collections
    .command('show')
    .description('show a collection with the number of its hotels and valid keys')
    .argument('<id>', 'id of the collection')
    .json(FORM)
    .examples('hotel-api collections show acme')
    .action(onDatabase(async (sql, id: string) => ({ printed: await readOne(sql, id) })));

  for (const action of ['add', 'remove'] as const) {
    const [done, preposition] = action === 'add' ? ['added', 'to'] : ['removed', 'from'];
    collections
      .command(action)
      .description(
        `${action} hotels ${preposition} a collection; in force everywhere within one second, of 100,000 within five`,
      )
      .argument('<id>', 'id of the collection')
      .argument('<file>', 'one hotel id per line, or NDJSON with "id", gzipped or not; - for standard input')
      .json(`{"id","${done}","unchanged","unknown","rejected"}`)
      .addHelpText(
        'after',
        `
All lines take effect in one transaction. An id that no hotel has is reported and counted as unknown, and ${done} like
any other. A line without an id is rejected, and makes the exit code 1.`,
      )
      .examples(
        `hotel-api collections ${action} acme hotels.txt`,
        `psql -Atc "select id from hotels where country_code = 'PT'" | hotel-api collections ${action} portugal -`,
      )
      .action(
        onDatabase(async (sql, id: string, file: string) => {
          const { changed, ...counts } = await changeMembers(sql, id, file, action);
          if (counts.rejected > 0) process.exitCode = 1;
          return { printed: { id, [done]: changed, ...counts } };
        }),
      );
  }

  collections
    .command('delete')
    .description('delete a collection; its keys see no hotels from then on')
    .argument('<id>', 'id of the collection')
    .json(FORM)
    .examples('hotel-api collections delete acme')
    .action(
      onDatabase(async (sql, id: string) => {
        const printed = await readOne(sql, id);
        await sql`delete from collections where id = ${id}`;
        return { printed };
      }),
    );
}

/** Creates a collection without hotels. Throws a `Failure` if the id exists. */
async function create(sql: Sql, id: string, { name }: { name: string }) {
  const [printed] = await sql`
    insert into collections ${sql({ id, name })} on conflict do nothing returning id, name`;
  if (printed) return { printed };
  throw new Failure(
    `A collection with the id ${JSON.stringify(id)} exists already. See it with: hotel-api collections show ${id}`,
  );
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

/** Returns all collections, or the one with this id, ordered by id. */
async function read(sql: Sql, id: string | null = null): Promise<object[]> {
  return sql`
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
}

async function readOne(sql: Sql, id: string): Promise<object> {
  await requireCollection(sql, id);
  return (await read(sql, id))[0]!;
}

/**
 * Adds the hotels in a file to a collection, or removes them, in one transaction; each counts once. An id without a hotel is
 * treated like any other, and reported. Throws a `Failure` if the collection or the file is unknown.
 */
async function changeMembers(sql: Sql, collection: string, path: string, action: 'add' | 'remove') {
  const source = await Source.open(path);
  const progress = new Progress(`reading ${source.name}`, source.sizeBytes, bytes);
  try {
    const { named, rejected } = await readIds(source, progress);
    const ids = [...named];
    const outcome = await sql.begin(async (transaction) => {
      await transaction`set local statement_timeout = 0`;
      await requireCollection(transaction, collection);
      const unknown = await transaction<{ id: string }[]>`
        select id from unnest(${ids}::text[]) as named (id)
        where not exists (select from hotels where hotels.id = named.id)`;
      const { count: changed } = await (action === 'add'
        ? transaction`
            insert into collection_hotels (collection_id, hotel_id)
            select ${collection}, id from unnest(${ids}::text[]) as named (id) order by id on conflict do nothing`
        : transaction`
            delete from collection_hotels where collection_id = ${collection} and hotel_id = any(${ids}::text[])`);
      for (const { id } of unknown) progress.log(`no hotel has the id ${JSON.stringify(id)}`);
      return { changed, unchanged: ids.length - changed, unknown: unknown.length, rejected };
    });
    // until it is analyzed, lists of a large new collection sort all of its members
    if (outcome.changed >= MANY_MEMBERS) await sql`analyze collection_hotels`;
    return outcome;
  } finally {
    progress.stop();
    await source.close();
  }
}

/** Returns the ids, and how many lines have none; these are reported. */
async function readIds(source: Source, progress: Progress) {
  const named = new Set<string>();
  let rejected = 0;
  for await (const lines of source.lines()) {
    progress.at(source.positionBytes);
    for (const line of lines) {
      if (line.text?.trim() === '') continue;
      const { id, fault } = readId(line);
      if (id !== undefined) named.add(id);
      else progress.log(`line ${line.number}: ${fault}`);
      if (fault) rejected++;
    }
  }
  return { named, rejected };
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
