import { runPrimary } from '../cluster/primary.ts';
import { readConfig } from '../config/config.ts';
import type { CliCommand } from './common/help.ts';

export function addCommand(program: CliCommand): void {
  program
    .command('serve')
    .description('run the service: workers, API and admin port')
    .examples(
      'DATABASE_URL=postgres://hotel@localhost/hotels hotel-api serve',
      'WORKERS=4 PORT=80 hotel-api serve',
    )
    .action(() => runPrimary(readConfig(process.env)));
}
