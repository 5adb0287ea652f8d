import type { CliCommand } from './common/help.ts';
import { count } from './common/progress.ts';
import { rejectedPath } from './common/rejects.ts';
import { print, withDatabase } from './common/session.ts';
import { Source } from './common/source.ts';
import { detectFormat } from './import/format.ts';
import { Importer, type ImportOptions, type Result } from './import/importer.ts';

export function addCommand(program: CliCommand): void {
  program
    .command('import')
    .description('insert and update hotels from NDJSON or CSV, gzipped or not')
    .argument('<file>', 'the file, or - for standard input; its content determines the format')
    .option('--dry-run', 'print what would change and the first faults, and change nothing')
    .option('--delete-missing', 'delete the hotels that the file does not name')
    .json('{"inserted","updated","unchanged","deleted","rejected"}')
    .addHelpText(
      'after',
      `
NDJSON has one hotel per line with the field names of the API. CSV begins with a header row of those names.
Commas, semicolons or tabs separate its cells, "images" is a cell of JSON, and an empty cell is null.

A line replaces the whole hotel: an absent field becomes null. Only id and name are required; "certified" is
ignored. Of several lines with the same id, the last counts. All valid lines are imported in one transaction.
An invalid line is reported, written to FILE.rejected.ndjson or .csv (stdin.rejected.ndjson for -), and makes
the exit code 1. Other writers of the table wait while the changes are merged.

An interrupted import continues when the same content is imported again within 7 days.`,
    )
    .examples(
      'hotel-api import hotels.ndjson --dry-run',
      'hotel-api import hotels.csv.gz --delete-missing',
      'curl -sS https://example.com/hotels.ndjson.gz | hotel-api import - --json',
    )
    .action(importHotels);
}

/** Runs `import FILE`. The exit code is 1 if a line was rejected. */
async function importHotels(path: string, options: ImportOptions): Promise<void> {
  const source = await Source.open(path);
  try {
    const format = await detectFormat(source);
    const work = new Importer(source, format, options);
    const result = await withDatabase((sql) => work.run(sql)).catch((error) => work.fail(error));
    print(options.json, result, describe(result, rejectedPath(source, format), options));
    if (result.rejected > 0) process.exitCode = 1;
  } finally {
    await source.close();
  }
}

function describe(result: Result, path: string, { dryRun }: ImportOptions): string {
  const { inserted, updated, unchanged, deleted, rejected, converted_uris: uris } = result;
  const counts = `${inserted} inserted, ${updated} updated, ${unchanged} unchanged, ${deleted} deleted, ${rejected} rejected`;
  return [
    dryRun ? `Dry run, nothing was changed. An import would be: ${counts}` : counts,
    ...(uris ? [`${count('IRI')(uris)} converted to URIs (percent-encoding, punycode).`] : []),
    ...(rejected > 0 ? [`The rejected lines are in ${path}: correct them and import that file.`] : []),
  ].join('\n');
}
