#!/usr/bin/env node
import { styleText } from 'node:util';
import { Command } from 'commander';
import { explainError } from './cli/explain-error.ts';
import { examples, HELP, pointToHelp } from './cli/help.ts';
import { printable } from './cli/printable.ts';
import { addCollectionCommands } from './cli/tree/collections.ts';
import { addHotelCommands } from './cli/tree/hotels.ts';
import { addKeyCommands } from './cli/tree/keys.ts';
import { addOperationCommands } from './cli/tree/operation.ts';

// Command modules are imported when they run: `serve` starts without the libraries of the others.
const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;

const program = new Command('hotel-api')
  .description(
    'The hotel API and its operation. Environment variables configure every command; see: hotel-api config',
  )
  .exitOverride()
  .configureHelp(HELP)
  .addHelpText(
    'after',
    '\nExit codes: 0 done, 1 failed, 2 wrong usage.\nHelp for a command: hotel-api COMMAND --help',
  );

program
  .command('serve')
  .description('run the service: workers, API and admin port')
  .addHelpText(
    'after',
    examples(
      'DATABASE_URL=postgres://hotel@localhost/hotels hotel-api serve',
      'WORKERS=4 PORT=80 hotel-api serve',
    ),
  )
  .action(async () => {
    const { readConfig } = await import('./config/config.ts');
    const config = readConfig(process.env);
    const { runPrimary } = await import('./cluster/primary.ts');
    await runPrimary(config);
  });

program
  .command('migrate')
  .description('bring the schema of the database to this release; safe to start many times at once')
  .option('--json', 'print one JSON document: {"applied","version"}')
  .addHelpText('after', examples('DATABASE_URL=postgres://hotel@localhost/hotels hotel-api migrate'))
  .action(async (options) => (await import('./cli/migrate-command.ts')).migrateCommand(options));

addKeyCommands(program);
addCollectionCommands(program);
addHotelCommands(program);
addOperationCommands(program);
pointToHelp(program);

// The reader of a pipe may close it before everything is printed, as `head` does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? DONE : FAILED);
});

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof Error && error.name === 'CommanderError') {
    // Commander has already printed the help or the error.
    process.exitCode = (error as Error & { exitCode: number }).exitCode === 0 ? DONE : WRONG_USAGE;
  } else {
    const { lines, exitCode } = explainError(
      error,
      process.env.DATABASE_DIRECT_URL || process.env.DATABASE_URL,
    );
    const prefix = styleText('red', 'hotel-api:', { stream: process.stderr });
    for (const line of lines) process.stderr.write(`${prefix} ${printable(line)}\n`);
    // A server that is still executing a statement would keep the process until its end.
    process.exit(exitCode);
  }
}
