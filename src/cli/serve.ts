import type { Command } from 'commander';
import { runPrimary } from '../cluster/primary.ts';
import { readConfig } from '../config/config.ts';
import { examples } from './common/help.ts';

/** Adds `serve`. */
export function addCommand(program: Command): void {
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
    .action(() => runPrimary(readConfig(process.env)));
}
