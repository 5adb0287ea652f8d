import type { Sql } from 'postgres';
import { Failure } from '../lib/failure.ts';
import { parseAmount } from './common/arguments.ts';
import type { CliCommand } from './common/help.ts';
import { onDatabase } from './common/session.ts';
import { Source } from './common/source.ts';
import { type ImportOptions, importHotels } from './import/importer.ts';
import { detectHeader } from './import/records.ts';

export function addCommand(program: CliCommand): void {
  program
    .command('import')
    .description('insert and update hotels from NDJSON or CSV, gzipped or not')
    .argument('<file>', 'the file, or - for standard input; its content determines the format')
    .option('--dry-run', 'print what would change and all faults, and change nothing')
    .option('--delete-missing', 'delete the hotels that the file does not name')
    .option('--delete-at-most <n>', 'hotels that may be deleted: 500, 30% (default: 20%)', parseAmount)
    .json('{"inserted","updated","unchanged","deleted","rejected","converted_uris","notes"}')
    .addHelpText(
      'after',
      `
NDJSON has one hotel per line with the field names of the API. CSV begins with a header row of those names.
Commas, semicolons or tabs separate its cells, "images" is a cell of JSON, and an empty cell, NULL or \\N is null.

A line replaces the whole hotel: an absent field becomes null. Only id and name are required; "certified" is
ignored. Of several lines with the same id, the last valid one counts. All valid lines are imported in one transaction.
An invalid line is reported, written to FILE.rejected.ndjson or .csv (stdin.rejected.ndjson for -), and makes
the exit code 1. Other writers of the table wait while the changes are merged. Nothing is imported from an input without
a hotel, from one that was written meanwhile, or if more than a fifth of the hotels would be deleted. Other kinds of
files make the exit code 2.
`,
    )
    .examples(
      'hotel-api import hotels.ndjson --dry-run',
      'hotel-api import hotels.csv.gz --delete-missing --delete-at-most 30%',
      'curl -sS https://example.com/hotels.ndjson.gz | hotel-api import - --json',
    )
    .action(onDatabase(run));
}

/** Runs `import FILE`. The exit code is 1 if a line was rejected. */
async function run(sql: Sql, path: string, options: ImportOptions) {
  if (options.deleteAtMost && !options.deleteMissing)
    throw new Failure('--delete-at-most needs --delete-missing.', 2);
  const source = await Source.open(path);
  try {
    const { failed, ...summary } = await importHotels(sql, source, await detectHeader(source), options);
    const { inserted, updated, unchanged, deleted, rejected, notes } = summary;
    const counts = `${inserted} inserted, ${updated} updated, ${unchanged} unchanged, ${deleted} deleted, ${rejected} rejected`;
    const beginning = options.dryRun ? 'Dry run, nothing was changed. An import would be: ' : '';
    if (failed) process.exitCode = 1;
    return { printed: summary, shown: null, note: [beginning + counts, ...notes].join('\n') };
  } finally {
    await source.close();
  }
}
