import type { Command } from 'commander';
import { collectScope, parseDuration, parseExpiry, parseName, parseRateLimit } from '../arguments.ts';
import { examples } from '../help.ts';

const DAY_S = 86_400;

/** Adds `keys` and its commands. */
export function addKeyCommands(program: Command): void {
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
    .action(async (options) => (await import('../keys-command.ts')).create(options));

  keys
    .command('list')
    .description('list all keys with their state; never a key or its hash')
    .option('--json', 'print one JSON document: an array of keys')
    .addHelpText('after', examples('hotel-api keys list', 'hotel-api keys list --json'))
    .action(async (options) => (await import('../keys-command.ts')).list(options));

  keys
    .command('revoke')
    .description('end a key for good; in force everywhere within a second')
    .argument('<id>', 'the id that create and list show')
    .option('--json', 'print one JSON document: {"id","name","revoked_at","rotated_to"}')
    .addHelpText('after', examples('hotel-api keys revoke key_Ab3dEf6hIj9k'))
    .action(async (id, options) => (await import('../keys-command.ts')).revoke(id, options));

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
    .action(async (id, rate, options) => (await import('../keys-command.ts')).limit(id, rate, options));

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
    .action(async (id, options) => (await import('../keys-command.ts')).rotate(id, options));
}
