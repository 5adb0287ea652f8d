import { print, withDatabase } from '../session.ts';
import {
  type Collection,
  createCollection,
  deleteCollection,
  listCollections,
  unknownCollection,
} from './collections.ts';
import { changeMembers } from './members.ts';

interface Options {
  json?: boolean;
  dryRun?: boolean;
}

/** Runs `collections create ID`. */
export async function create(id: string, { name, json }: { name: string; json?: boolean }): Promise<void> {
  await withDatabase((sql) => createCollection(sql, id, name));
  print(
    json,
    { id, name },
    `Collection ${id} (${name}) created. Add hotels: hotel-api collections add ${id} FILE`,
  );
}

/** Runs `collections list`. */
export async function list({ json }: Options): Promise<void> {
  const collections = await withDatabase((sql) => listCollections(sql));
  const none = 'There are no collections yet. Create one: hotel-api collections create ID --name NAME';
  print(json, collections, collections.length === 0 ? none : collections.map(describe).join('\n'));
}

/** Runs `collections show ID`. */
export async function show(id: string, { json }: Options): Promise<void> {
  const [collection] = await withDatabase((sql) => listCollections(sql, id));
  if (!collection) throw unknownCollection(id);
  print(json, collection, describe(collection));
}

/** Runs `collections add ID FILE` and `collections remove ID FILE`. The exit code is 1 if a line was rejected. */
export async function change(
  action: 'add' | 'remove',
  id: string,
  path: string,
  { json, dryRun }: Options,
): Promise<void> {
  const { changed, unchanged, unknown, rejected, files } = await changeMembers(id, path, { action, dryRun });
  const done = action === 'add' ? 'added' : 'removed';
  const counts = `${changed} ${done}, ${unchanged} unchanged, ${unknown} unknown, ${rejected} rejected`;
  print(
    json,
    { id, [done]: changed, unchanged, unknown, rejected },
    [
      dryRun ? `Dry run, nothing was changed. It would be: ${counts}` : counts,
      ...(unknown > 0 && action === 'add'
        ? [
            'No hotel has the unknown ids yet. The collection contains them, so such a hotel becomes visible at once.',
          ]
        : []),
      ...files.map((file) => `The lines are in ${file}.`),
    ].join('\n'),
  );
  if (rejected > 0) process.exitCode = 1;
}

/** Runs `collections delete ID`. */
export async function remove(id: string, { json, dryRun = false }: Options): Promise<void> {
  const collection = await withDatabase((sql) => deleteCollection(sql, id, dryRun));
  const { name, hotels, unknown, keys } = collection;
  print(
    json,
    { id, name, hotels, unknown, keys },
    [
      `Collection ${id} (${name}) with ${hotels + unknown} hotels ${dryRun ? 'would be' : 'is'} deleted.`,
      ...(keys > 0 ? [`${keys} keys belong to it. They see no hotels until it is created again.`] : []),
    ].join('\n'),
  );
}

function describe({ id, name, hotels, unknown, keys }: Collection): string {
  const more = unknown > 0 ? `, ${unknown} unknown` : '';
  return `${id}  ${name.replace(/\p{Cc}/gu, ' ')}  ${hotels} hotels${more}, ${keys} keys`;
}
