import type { Command } from 'commander';
import { parseDuration, parseWhole } from '../arguments.ts';
import { examples } from '../help.ts';

/** Adds the commands that look after a deployment: `config`, `health` and `check-freshness`. */
export function addOperationCommands(program: Command): void {
  program
    .command('config')
    .description('print the effective configuration, secrets redacted')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('hotel-api config', 'hotel-api config --json'))
    .action(async (options) => (await import('../config.ts')).showConfig(options));

  program
    .command('health')
    .description('ask the admin port of the service on this machine whether it is ready, within 2 seconds')
    .option(
      '--live',
      'ask whether the process lives (/livez) instead of whether it should get traffic (/readyz)',
    )
    .option('--json', 'print one JSON document: {"url","status"}')
    .addHelpText('after', examples('hotel-api health', 'ADMIN_PORT=9191 hotel-api health --live'))
    .action(async (options) => (await import('../health.ts')).health(options));

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
connection shows the change. Exit code 1 when an answer was older than promised, or nothing could be compared.
${examples('HOTEL_API_KEY=hk_… hotel-api check-freshness --url http://localhost:8080', 'HOTEL_API_KEY=hk_… hotel-api check-freshness --url https://api.example/v1 --for 10m --json')}`,
    )
    .action(async (options) => (await import('../check-freshness.ts')).checkFreshness(options));
}
