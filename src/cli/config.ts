import { readConfig, redact } from '../config/config.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/session.ts';

export function addCommand(program: CliCommand): void {
  program
    .command('config')
    .description('print the effective configuration without its secrets')
    .option('--json', 'print one JSON document')
    .examples('hotel-api config', 'hotel-api config --json')
    .action(showConfig);
}

/** Runs `config`: prints the effective configuration as environment variables, with passwords replaced. */
function showConfig({ json }: { json?: boolean }): void {
  const shown = redact(readConfig(process.env));
  const lines = Object.entries(shown).map(([name, value]) => `${name}=${value}`);
  print(json, shown, lines.join('\n'));
}
