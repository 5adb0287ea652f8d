#!/usr/bin/env node
import { addCommands } from './cli/commands.ts';
import { explainError } from './cli/common/explain-error.ts';
import { CliCommand } from './cli/common/help.ts';
import { printable } from './cli/common/print.ts';
import { withAddressFiles } from './config/address-files.ts';

const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;

const program = new CliCommand('hotel-api')
  .description(
    'The hotel API and its operation. Environment variables configure every command; see: hotel-api config',
  )
  .exitOverride()
  .showHelpAfterError('The option --help explains the command.')
  .addHelpText(
    'after',
    '\nExit codes: 0 done, 1 failed, 2 wrong usage.\nHelp for a command: hotel-api COMMAND --help',
  );

await addCommands(program, process.argv[2]);

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
    const [{ DATABASE_URL }] = withAddressFiles(process.env);
    const { lines, exitCode } = explainError(error, DATABASE_URL);
    for (const line of lines) process.stderr.write(`hotel-api: ${printable(line)}\n`);
    // A server that is still executing a statement would keep the process until its end.
    process.exit(exitCode);
  }
}
