#!/usr/bin/env node
import { Command } from 'commander';
import {
  collectScope,
  parseDay,
  parseDuration,
  parseExpiry,
  parseName,
  parseRateLimit,
  parseWhole,
} from './cli/arguments.ts';
import { explainError } from './cli/failure.ts';

// Command modules are imported when they run: `serve` starts without the libraries of the others.
const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;
const DAY_S = 86_400;

const program = new Command('hotel-api')
  .description(
    'The hotel API and its operation. Every command is configured by the environment; see: hotel-api config',
  )
  .exitOverride()
  .showHelpAfterError('Help: hotel-api COMMAND --help')
  .configureHelp({ sortSubcommands: false, showGlobalOptions: false })
  .addHelpText(
    'after',
    '\nExit codes: 0 done, 1 failed, 2 wrong usage.\nHelp for a command: hotel-api COMMAND --help',
  );

program
  .command('serve')
  .description('run the service: workers, public port and admin port')
  .addHelpText(
    'after',
    examples(
      'DATABASE_URL=postgres://hotel@localhost/hotels hotel-api serve',
      'WORKERS=4 PORT=80 hotel-api serve',
    ),
  )
  .action(async () => {
    const { readConfig } = await import('./config.ts');
    const config = readConfig(process.env);
    const { runPrimary } = await import('./cluster/primary.ts');
    await runPrimary(config);
  });

program
  .command('migrate')
  .description('bring the schema of the database to this release; may be started many times at once')
  .option('--json', 'print one JSON document: {"applied","version"}')
  .addHelpText('after', examples('DATABASE_URL=postgres://hotel@localhost/hotels hotel-api migrate'))
  .action(async (options) => (await import('./cli/migrate.ts')).migrateCommand(options));

const keys = program
  .command('keys')
  .description('make, list, limit, revoke and rotate API keys')
  .addHelpText(
    'after',
    examples('hotel-api keys create --name "Acme Travel" --scope registry', 'hotel-api keys list'),
  );

keys
  .command('create')
  .description('make a key and print it, once: only its hash is stored')
  .requiredOption('--name <name>', 'whose key it is', parseName)
  .option('--scope <scope>', 'what it may see besides: registry (may be repeated)', collectScope, [])
  .option('--expires <time>', 'a date (its beginning, UTC) or an ISO time; without it, never', (text) =>
    parseExpiry(text),
  )
  .option(
    '--rate-limit <rate>',
    'how often it may be used, all workers of an instance together: 200/s, 6000/m, 100000/h; without it, without limit',
    parseRateLimit,
    null,
  )
  .option(
    '--json',
    'print one JSON document: {"id","name","key","scopes","expires_at"}, with a limit "rate_limit"',
  )
  .addHelpText(
    'after',
    examples(
      'hotel-api keys create --name "Acme Travel"',
      'hotel-api keys create --name "Acme Travel" --scope registry --expires 2030-01-31',
      'hotel-api keys create --name ci --expires 2030-01-31T12:00:00Z --json',
      'hotel-api keys create --name trial --rate-limit 200/s',
    ),
  )
  .action(async (options) => (await import('./cli/keys-command.ts')).create(options));

keys
  .command('list')
  .description('list all keys with their state; never a key or its hash')
  .option('--json', 'print one JSON document: an array of keys')
  .addHelpText('after', examples('hotel-api keys list', 'hotel-api keys list --json'))
  .action(async (options) => (await import('./cli/keys-command.ts')).list(options));

keys
  .command('revoke')
  .description('end a key for good; in force everywhere within a second')
  .argument('<id>', 'the id that create and list show')
  .option('--json', 'print one JSON document: {"id","name","revoked_at","rotated_to"}')
  .addHelpText('after', examples('hotel-api keys revoke key_Ab3dEf6hIj9k'))
  .action(async (id, options) => (await import('./cli/keys-command.ts')).revoke(id, options));

keys
  .command('limit')
  .description('set how often a key may be used; in force everywhere within a second')
  .argument('<id>', 'the id that create and list show')
  .argument(
    '<rate>',
    '200/s, 6000/m or 100000/h, all workers of an instance together; none: no limit',
    parseRateLimit,
  )
  .option('--json', 'print one JSON document: {"id","name","rate_limit"}')
  .addHelpText(
    'after',
    examples('hotel-api keys limit key_Ab3dEf6hIj9k 200/s', 'hotel-api keys limit key_Ab3dEf6hIj9k none'),
  )
  .action(async (id, rate, options) => (await import('./cli/keys-command.ts')).limit(id, rate, options));

keys
  .command('rotate')
  .description(
    'make a successor with the same name, scopes, rate limit and expiry; the old key works until the grace time ends',
  )
  .argument('<id>', 'the id of the old key')
  .option(
    '--grace <duration>',
    'how long the old key goes on working: 90s, 15m, 24h, 7d',
    parseDuration,
    DAY_S,
  )
  .option('--json', 'print one JSON document about the new key, as create does')
  .addHelpText(
    'after',
    examples('hotel-api keys rotate key_Ab3dEf6hIj9k', 'hotel-api keys rotate key_Ab3dEf6hIj9k --grace 7d'),
  )
  .action(async (id, options) => (await import('./cli/keys-command.ts')).rotate(id, options));

program
  .command('import')
  .description('insert and update hotels from NDJSON, one hotel a line with the field names of the API')
  .argument('<file>', 'an NDJSON file, or - for standard input')
  .option('--dry-run', 'change nothing, print what would change')
  .option('--delete-missing', 'delete the hotels that the file does not name')
  .option('--json', 'print one JSON document: {"inserted","updated","unchanged","deleted","rejected"}')
  .addHelpText(
    'after',
    `
A line stands for the whole hotel: a field that is absent is stored as null. Only id and name are required,
"certified" is ignored. Of several lines with the same id the last counts. All that is right is imported in one
transaction; a line that is wrong is reported, written to FILE.rejected.ndjson (stdin.rejected.ndjson for -),
and makes the exit code 1. Other writers of the table wait while the changes are merged.
${examples('hotel-api import hotels.ndjson --dry-run', 'hotel-api import hotels.ndjson --delete-missing', 'zcat hotels.ndjson.gz | hotel-api import - --json')}`,
  )
  .action(async (file, options) => (await import('./cli/import/command.ts')).importHotels(file, options));

program
  .command('seed')
  .description('fill an empty table with made-up hotels in real cities, the same for the same seed and day')
  .requiredOption('--hotels <n>', 'how many', parseWhole(1, 100_000_000))
  .option('--seed <s>', 'another seed makes other hotels', parseWhole(0, 2_147_483_647), 1)
  .option(
    '--today <date>',
    'the day to which certification periods are past, present or future (default: today, UTC)',
    parseDay,
  )
  .option('--json', 'print one JSON document: {"inserted","seed","today"}')
  .addHelpText(
    'after',
    examples('hotel-api seed --hotels 20000', 'hotel-api seed --hotels 1000000 --seed 7 --today 2026-01-01'),
  )
  .action(async (options) => (await import('./cli/seed.ts')).seedCommand(options));

program
  .command('config')
  .description('print the effective configuration, secrets redacted')
  .option('--json', 'print one JSON document')
  .addHelpText('after', examples('hotel-api config', 'hotel-api config --json'))
  .action(async (options) => (await import('./cli/config.ts')).showConfig(options));

program
  .command('health')
  .description('ask the admin port of the service on this machine whether it is ready, within 2 seconds')
  .option(
    '--live',
    'ask whether the process lives (/livez) instead of whether it should get traffic (/readyz)',
  )
  .option('--json', 'print one JSON document: {"url","status"}')
  .addHelpText('after', examples('hotel-api health', 'ADMIN_PORT=9191 hotel-api health --live'))
  .action(async (options) => (await import('./cli/health.ts')).health(options));

program
  .command('check-freshness')
  .description('compare what a running deployment serves with PostgreSQL while both change; only reads')
  .requiredOption('--url <url>', 'base address of the public port, BASE_PATH included')
  .option('--for <duration>', 'how long: 30s, 10m, 1h', parseDuration, 30)
  .option(
    '--connections <n>',
    'connections to ask over: several for each worker, so that none is missed',
    parseWhole(1, 1_000),
    16,
  )
  .option(
    '--promise-ms <ms>',
    'an answer that is older than this is a fault',
    parseWhole(1, 3_600_000),
    1_000,
  )
  .option('--json', 'print one JSON document: {"answers","changes","lag_ms","stale"}')
  .addHelpText(
    'after',
    `
HOTEL_API_KEY is the key it asks with. Lag is measured from the moment PostgreSQL tells of a commit until a
connection shows the change. Exit code 1 when an answer was older than promised.
${examples('HOTEL_API_KEY=hk_… hotel-api check-freshness --url http://localhost:8080', 'HOTEL_API_KEY=hk_… hotel-api check-freshness --url https://api.example/v1 --for 10m --json')}`,
  )
  .action(async (options) => (await import('./cli/check-freshness.ts')).checkFreshness(options));

// The reader of a pipe may go before all is printed, as `head` does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? DONE : FAILED);
});

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof Error && error.name === 'CommanderError') {
    // Commander has printed the help or the fault already.
    process.exitCode = (error as Error & { exitCode: number }).exitCode === 0 ? DONE : WRONG_USAGE;
  } else {
    const { lines, exitCode } = explainError(error, process.env.DATABASE_URL);
    for (const line of lines) process.stderr.write(`hotel-api: ${line}\n`);
    process.exitCode = exitCode;
  }
}

function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`;
}
