import type { Sql } from 'postgres';
import { Failure } from '../lib/failure.ts';
import { changeMembers, requireCollection } from './collections/members.ts';
import { parseText } from './common/arguments.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';
import { withDatabase } from './common/session.ts';

interface Options {
  json?: boolean;
}

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
    .argument('<id>', 'id of the collection: 1 to 255 characters', parseText(255))
    .requiredOption('--name <name>', 'name of the collection', parseText(200))
    .json('{"id","name"}')
    .examples('hotel-api collections create acme --name "Acme Travel"')
    .action(create);

  collections
    .command('list')
    .description('list all collections with the number of their hotels and valid keys')
    .json('an array of {"id","name","hotels","unknown","keys"}')
    .examples('hotel-api collections list', 'hotel-api collections list --json')
    .action(list);

  collections
    .command('show')
    .description('show a collection with the number of its hotels and valid keys')
    .argument('<id>', 'id of the collection')
    .json('{"id","name","hotels","unknown","keys"}')
    .examples('hotel-api collections show acme')
    .action(show);

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
        `hotel-api export | grep '"country_code":"PT"' | hotel-api collections ${action} portugal -`,
      )
      .action((id, file, options) => change(action, id, file, options));
  }

  collections
    .command('delete')
    .description('delete a collection; its keys see no hotels from then on')
    .argument('<id>', 'id of the collection')
    .json('{"id","name","hotels","unknown","keys"}')
    .examples('hotel-api collections delete acme')
    .action(remove);
}

async function create(id: string, { name, json }: { name: string; json?: boolean }): Promise<void> {
  await withDatabase((sql) => createCollection(sql, id, name));
  print(json, { id, name });
}

/** Creates a collection without hotels. Throws a `Failure` if the id exists. */
export async function createCollection(sql: Sql, id: string, name: string): Promise<void> {
  const [created] =
    await sql`insert into collections ${sql({ id, name })} on conflict do nothing returning id`;
  if (created) return;
  throw new Failure(
    `A collection with the id ${JSON.stringify(id)} exists already. See it with: hotel-api collections show ${id}`,
  );
}

async function list({ json }: Options): Promise<void> {
  print(json, await withDatabase((sql) => read(sql)));
}

async function show(id: string, { json }: Options): Promise<void> {
  print(json, await withDatabase((sql) => readOne(sql, id)));
}

/** Runs `collections add ID FILE` and `collections remove ID FILE`. The exit code is 1 if a line was rejected. */
async function change(action: 'add' | 'remove', id: string, path: string, { json }: Options): Promise<void> {
  const { changed, unchanged, unknown, rejected } = await changeMembers(id, path, action);
  const done = action === 'add' ? 'added' : 'removed';
  print(json, { id, [done]: changed, unchanged, unknown, rejected });
  if (rejected > 0) process.exitCode = 1;
}

/** The keys of the deleted collection see no hotels afterwards. */
async function remove(id: string, { json }: Options): Promise<void> {
  const collection = await withDatabase(async (sql) => {
    const last = await readOne(sql, id);
    await sql`delete from collections where id = ${id}`;
    return last;
  });
  print(json, collection);
}

/** Returns all collections, or the one with this id, ordered by id. */
async function read(sql: Sql, id: string | null = null): Promise<object[]> {
  const rows = await sql`
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
  return rows;
}

async function readOne(sql: Sql, id: string): Promise<object> {
  await requireCollection(sql, id);
  return (await read(sql, id))[0]!;
}
