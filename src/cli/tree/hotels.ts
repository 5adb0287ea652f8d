import type { Command } from 'commander';
import { parseDay, parseWhole } from '../arguments.ts';
import { examples } from '../help.ts';

/** Adds the commands that read and write the hotels: `import`, `mirror`, `export`, `seed`. */
export function addHotelCommands(program: Command): void {
  program
    .command('import')
    .description('insert and update hotels from NDJSON or CSV, gzipped or not')
    .argument('<file>', 'the file, or - for standard input; its content determines the format')
    .option('--dry-run', 'print what would change and the first faults, and change nothing')
    .option('--delete-missing', 'delete the hotels that the file does not name')
    .option('--json', 'print one JSON document: {"inserted","updated","unchanged","deleted","rejected"}')
    .addHelpText(
      'after',
      `
NDJSON has one hotel per line with the field names of the API. CSV begins with a header row of those names.
Commas, semicolons or tabs separate its cells, "images" is a cell of JSON, and an empty cell is null.

A line replaces the whole hotel: an absent field becomes null. Only id and name are required; "certified" is
ignored. Of several lines with the same id, the last counts. All valid lines are imported in one transaction.
An invalid line is reported, written to FILE.rejected.ndjson or .csv (stdin.rejected.ndjson for -), and makes
the exit code 1. Other writers of the table wait while the changes are merged.

An interrupted import continues when the same content is imported again within 7 days.
${examples('hotel-api import hotels.ndjson --dry-run', 'hotel-api import hotels.csv.gz --delete-missing', 'curl -sS https://example.com/hotels.ndjson.gz | hotel-api import - --json')}`,
    )
    .action(async (file, options) => (await import('../import/command.ts')).importHotels(file, options));

  program
    .command('mirror')
    .description('copy all hotels of a running API into a file of NDJSON, or bring such a copy up to date')
    .argument('<url>', 'base address of the API, including BASE_PATH')
    .argument('<file>', 'the file to write; FILE.next holds where the next call goes on')
    .option('--follow', 'keep the file up to date until Ctrl-C')
    .option(
      '--json',
      'print one JSON document: {"hotels","requests","changed","removed","begun_again","file"}',
    )
    .addHelpText(
      'after',
      `
HOTEL_API_KEY is the API key. The copy is held in memory meanwhile: about 2 GB for a million hotels.
${examples('HOTEL_API_KEY=hk_… hotel-api mirror http://localhost:8080 hotels.ndjson', 'HOTEL_API_KEY=hk_… hotel-api mirror https://api.example/v1 hotels.ndjson --follow')}`,
    )
    .action(async (url, file, options) => (await import('../mirror.ts')).mirror(url, file, options));

  program
    .command('export')
    .description('write all hotels of one moment as NDJSON, ordered by id, as import reads it')
    .argument('[file]', 'the file to write, or - for standard output', '-')
    .option('--gzip', 'compress the output; a file whose name ends in .gz is always compressed')
    .option('--json', 'print one JSON document: {"exported","file"}; needs a file')
    .addHelpText(
      'after',
      examples(
        'hotel-api export hotels.ndjson.gz',
        'hotel-api export | grep \'"country_code":"PT"\' > portugal.ndjson',
      ),
    )
    .action(async (file, options, command: Command) => {
      if (file === '-' && options.json)
        command.error('error: --json needs a file, because standard output carries the hotels', {
          exitCode: 2,
        });
      await (await import('../export.ts')).exportHotels(file, options);
    });

  program
    .command('seed')
    .description(
      'fill an empty table with generated hotels in real cities; the same seed and day give the same hotels',
    )
    .requiredOption('--hotels <n>', 'number of hotels', parseWhole(1, 100_000_000))
    .option('--seed <s>', 'seed of the generator', parseWhole(0, 2_147_483_647), 1)
    .option('--if-empty', 'do nothing and succeed when the table holds hotels')
    .option('--today <date>', 'the day that certification periods refer to (default: today, UTC)', parseDay)
    .option('--json', 'print one JSON document: {"inserted","seed","today"}')
    .addHelpText(
      'after',
      examples(
        'hotel-api seed --hotels 20000',
        'hotel-api seed --hotels 1000000 --seed 7 --today 2026-01-01',
      ),
    )
    .action(async (options) => (await import('../seed-command.ts')).seedCommand(options));
}
