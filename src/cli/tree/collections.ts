import type { Command } from 'commander';
import { parseCollectionId, parseName } from '../arguments.ts';
import { examples } from '../help.ts';

/** Adds `collections` and its commands. */
export function addCollectionCommands(program: Command): void {
  const collections = program
    .command('collections')
    .description('create, list and fill collections: the hotels that a key of a collection sees')
    .addHelpText(
      'after',
      examples(
        'hotel-api collections create acme --name "Acme Travel"',
        'hotel-api collections add acme hotels.txt',
        'hotel-api keys create --name "Acme Travel" --collection acme',
      ),
    );
  const load = () => import('../collections/command.ts');

  collections
    .command('create')
    .description('create a collection without hotels')
    .argument('<id>', 'id of the collection: 1 to 255 characters', parseCollectionId)
    .requiredOption('--name <name>', 'name of the collection', parseName)
    .option('--json', 'print one JSON document: {"id","name"}')
    .addHelpText('after', examples('hotel-api collections create acme --name "Acme Travel"'))
    .action(async (id, options) => (await load()).create(id, options));

  collections
    .command('list')
    .description('list all collections with the number of their hotels and valid keys')
    .option('--json', 'print one JSON document: an array of {"id","name","hotels","unknown","keys"}')
    .addHelpText('after', examples('hotel-api collections list', 'hotel-api collections list --json'))
    .action(async (options) => (await load()).list(options));

  collections
    .command('show')
    .description('show a collection with the number of its hotels and valid keys')
    .argument('<id>', 'id of the collection')
    .option('--json', 'print one JSON document: {"id","name","hotels","unknown","keys"}')
    .addHelpText('after', examples('hotel-api collections show acme'))
    .action(async (id, options) => (await load()).show(id, options));

  for (const [action, does] of [
    ['add', 'add hotels to a collection'],
    ['remove', 'remove hotels from a collection'],
  ] as const) {
    const done = action === 'add' ? 'added' : 'removed';
    collections
      .command(action)
      .description(`${does}; in force everywhere within one second`)
      .argument('<id>', 'id of the collection')
      .argument('<file>', 'one hotel id per line, or NDJSON with "id", gzipped or not; - for standard input')
      .option('--dry-run', 'print what would change, and change nothing')
      .option('--json', `print one JSON document: {"id","${done}","unchanged","unknown","rejected"}`)
      .addHelpText(
        'after',
        `
All lines take effect in one transaction. An id that no hotel has is counted as unknown, reported, and written to
FILE.unknown.txt or .ndjson. It is ${done} like any other id. A line without an id is rejected, written to
FILE.rejected.txt or .ndjson, and makes the exit code 1.
${examples(`hotel-api collections ${action} acme hotels.txt`, `hotel-api export | grep '"country_code":"PT"' | hotel-api collections ${action} portugal -`)}`,
      )
      .action(async (id, file, options) => (await load()).change(action, id, file, options));
  }

  collections
    .command('delete')
    .description('delete a collection; its keys see no hotels from then on')
    .argument('<id>', 'id of the collection')
    .option('--dry-run', 'print what would be deleted, and change nothing')
    .option('--json', 'print one JSON document: {"id","name","hotels","unknown","keys"}')
    .addHelpText('after', examples('hotel-api collections delete acme --dry-run'))
    .action(async (id, options) => (await load()).remove(id, options));
}
