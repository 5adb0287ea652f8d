import type { Command } from 'commander';
import { collectScope, parseDuration, parseExpiry, parseName, parseRateLimit } from '../arguments.ts';
import { examples } from '../help.ts';

const DAY_S = 86_400;

/** Adds `keys` and its commands. */
export function addKeyCommands(program: Command): void {
  const keys = program
    .command('keys')
    .description('create, list, limit, revoke and rotate API keys')
    .addHelpText(
      'after',
      examples('hotel-api keys create --name "Acme Travel" --scope registry', 'hotel-api keys list'),
    );

  keys
    .command('create')
    .description('create a key and print it once; only its hash is stored')
    .requiredOption('--name <name>', 'name of the key holder', parseName)
    .option('--scope <scope>', 'additional scope: registry (may be repeated)', collectScope, [])
    .option(
      '--expires <time>',
      'a date (00:00 UTC) or an ISO time; by default the key never expires',
      (text) => parseExpiry(text),
    )
    .option(
      '--rate-limit <rate>',
      'rate limit per instance: 200/s, 6000/m, 100000/h; by default none',
      parseRateLimit,
      null,
    )
    .option('--collection <id>', 'collection whose hotels the key sees; by default it sees all hotels')
    .option(
      '--json',
      'print one JSON document: {"id","name","key","scopes","expires_at"}, "rate_limit" and "collection" if there is one',
    )
    .addHelpText(
      'after',
      examples(
        'hotel-api keys create --name "Acme Travel"',
        'hotel-api keys create --name "Acme Travel" --scope registry --expires 2030-01-31',
        'hotel-api keys create --name ci --expires 2030-01-31T12:00:00Z --json',
        'hotel-api keys create --name trial --rate-limit 200/s',
        'hotel-api keys create --name "Acme Travel" --collection acme',
      ),
    )
    .action(async (options) => (await import('../keys-command.ts')).create(options));

  keys
    .command('list')
    .description('list all keys with their state, without the keys and their hashes')
    .option('--json', 'print one JSON document: an array of keys')
    .addHelpText('after', examples('hotel-api keys list', 'hotel-api keys list --json'))
    .action(async (options) => (await import('../keys-command.ts')).list(options));

  keys
    .command('revoke')
    .description('revoke a key permanently; in force everywhere within one second')
    .argument('<id>', 'the id that create and list print')
    .option('--json', 'print one JSON document: {"id","name","revoked_at","rotated_to"}')
    .addHelpText('after', examples('hotel-api keys revoke key_Ab3dEf6hIj9k'))
    .action(async (id, options) => (await import('../keys-command.ts')).revoke(id, options));

  keys
    .command('limit')
    .description('set the rate limit of a key; in force everywhere within one second')
    .argument('<id>', 'the id that create and list print')
    .argument('<rate>', '200/s, 6000/m or 100000/h per instance, or none', parseRateLimit)
    .option('--json', 'print one JSON document: {"id","name","rate_limit"}')
    .addHelpText(
      'after',
      examples('hotel-api keys limit key_Ab3dEf6hIj9k 200/s', 'hotel-api keys limit key_Ab3dEf6hIj9k none'),
    )
    .action(async (id, rate, options) => (await import('../keys-command.ts')).limit(id, rate, options));

  keys
    .command('rotate')
    .description(
      'create a successor with the same name, scopes, rate limit, collection and expiry; the old key works until the grace time ends',
    )
    .argument('<id>', 'the id of the old key')
    .option(
      '--grace <duration>',
      'how long the old key remains valid: 90s, 15m, 24h, 7d',
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
