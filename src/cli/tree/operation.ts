import type { Command } from 'commander';
import { parseDuration, parseWhole } from '../arguments.ts';
import { examples } from '../help.ts';

/** Adds the commands that inspect a deployment: `config`, `health` and `check-freshness`. */
export function addOperationCommands(program: Command): void {
  program
    .command('config')
    .description('print the effective configuration without its secrets')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('hotel-api config', 'hotel-api config --json'))
    .action(async (options) => (await import('../config.ts')).showConfig(options));

  program
    .command('health')
    .description('check on the admin port whether the service on this machine is ready, within 2 seconds')
    .option('--live', 'check whether the process is alive (/livez) instead of ready (/readyz)')
    .option('--json', 'print one JSON document: {"url","status"}')
    .addHelpText('after', examples('hotel-api health', 'ADMIN_PORT=9191 hotel-api health --live'))
    .action(async (options) => (await import('../health.ts')).health(options));

  program
    .command('check-freshness')
    .description('compare a running deployment with PostgreSQL while both change; read-only')
    .requiredOption('--url <url>', 'base address of the API, including BASE_PATH')
    .option('--for <duration>', 'duration: 30s, 10m, 1h', parseDuration, 30)
    .option(
      '--connections <n>',
      'connections to the API: several per worker, so that each worker is checked',
      parseWhole(1, 1_000),
      16,
    )
    .option('--promise-ms <ms>', 'maximum age of an answer', parseWhole(1, 3_600_000), 1_000)
    .option('--json', 'print one JSON document: {"answers","changes","lag_ms","stale"}')
    .addHelpText(
      'after',
      `
HOTEL_API_KEY is the API key. Lag is the time from the notification of a commit by PostgreSQL until a
connection returns the change. The exit code is 1 if an answer was older than promised, or nothing could be compared.
${examples('HOTEL_API_KEY=hk_… hotel-api check-freshness --url http://localhost:8080', 'HOTEL_API_KEY=hk_… hotel-api check-freshness --url https://api.example/v1 --for 10m --json')}`,
    )
    .action(async (options) => (await import('../check-freshness.ts')).checkFreshness(options));
}
