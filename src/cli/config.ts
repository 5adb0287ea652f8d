import { readConfig, redact } from '../config/config.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';

export function addCommand(program: CliCommand): void {
  program
    .command('config')
    .description('print the effective configuration without its secrets')
    .option('--json', 'print one JSON document')
    .examples('hotel-api config', 'hotel-api config --json')
    .action(showConfig);
}

/** Runs `config`: prints the effective configuration, with passwords replaced. */
function showConfig({ json }: { json?: boolean }): void {
  print(json, redact(readConfig(process.env)));
}
