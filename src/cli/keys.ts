import { randomBytes } from 'node:crypto';
import { Option } from 'commander';
import type { Sql, TransactionSql } from 'postgres';
import { hashOf, makeKey } from '../auth/key.ts';
import { Failure } from '../lib/failure.ts';
import { isoTime } from '../lib/iso-time.ts';
import type { RateLimit } from '../rate-limit/rate-limit.ts';
import { requireCollection } from './collections.ts';
import { parseDuration, parseExpiry, parseRateLimit, parseText, parseWhole } from './common/arguments.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';
import { withDatabase } from './common/session.ts';

const DAY_S = 86_400;
/** Days for which the use of keys is kept. */
const MAX_DAYS = 90;
const SHOWN_ONCE = 'The key is shown only now: only its hash is stored.';

/** Properties of a key that is created. */
interface KeyOptions {
  name: string;
  scopes?: string[];
  expiresAt?: string | null;
  rateLimit?: RateLimit | null;
  collection?: string | null;
  /** such as the reason */
  note?: string | null;
}

export function addCommand(program: CliCommand): void {
  const keys = program
    .command('keys')
    .description('create, list, limit, revoke and rotate API keys')
    .examples('hotel-api keys create --name "Acme Travel" --scope registry', 'hotel-api keys list');

  keys
    .command('create')
    .description('create a key and print it once; only its hash is stored')
    .requiredOption('--name <name>', 'name of the key holder', parseText(200))
    .addOption(new Option('--scope <scope>', 'additional scope (default: none)').choices(['registry']))
    .option('--expires <time>', 'a date (00:00 UTC) or an ISO time (default: never)', parseExpiry)
    .option('--rate-limit <rate>', 'rate limit: 200/s, 6000/m, 100000/h (default: none)', parseRateLimit)
    .option('--collection <id>', 'collection whose hotels the key sees (default: all hotels)')
    .option('--note <text>', 'a note that keys list --json shows', parseText(500))
    .json('{"id","name","key","scopes","expires_at"}, "rate_limit" and "collection" if there is one')
    .examples(
      'hotel-api keys create --name "Acme Travel"',
      'hotel-api keys create --name "Acme Travel" --scope registry --expires 2030-01-31 --json',
      'hotel-api keys create --name trial --rate-limit 200/s --note "ticket 4711"',
      'hotel-api keys create --name "Acme Travel" --collection acme',
    )
    .action(create);

  keys
    .command('list')
    .description('list all keys with their state and their last use, without the keys and their hashes')
    .json('an array of keys')
    .examples('hotel-api keys list', 'hotel-api keys list --json')
    .action(list);

  keys
    .command('revoke')
    .description('revoke a key permanently; in force everywhere within one second')
    .argument('<id>', 'the id that create and list print')
    .option('--note <text>', 'a note that keys list --json shows', parseText(500))
    .json('{"id","name","revoked_at","rotated_to"}')
    .examples('hotel-api keys revoke key_Ab3dEf6hIj9k --note "found in a repository"')
    .action(revoke);

  keys
    .command('limit')
    .description('set the rate limit of a key; in force everywhere within one second')
    .argument('<id>', 'the id that create and list print')
    .argument('<rate>', '200/s, 6000/m, 100000/h or none', parseRateLimit)
    .json('{"id","name","rate_limit"}')
    .examples('hotel-api keys limit key_Ab3dEf6hIj9k 200/s', 'hotel-api keys limit key_Ab3dEf6hIj9k none')
    .action(limit);

  keys
    .command('rotate')
    .description(
      'create a successor with the same name, scopes, rate limit, collection and expiry; the old key works until the grace time ends',
    )
    .argument('<id>', 'the id of the old key')
    .option(
      '--grace <duration>',
      'how long the old key remains valid at most: 90s, 15m, 24h, 7d (default: 24h)',
      parseDuration,
    )
    .option('--note <text>', 'a note about the new key that keys list --json shows', parseText(500))
    .option('--json', 'print one JSON document about the new key, as create does')
    .examples('hotel-api keys rotate key_Ab3dEf6hIj9k', 'hotel-api keys rotate key_Ab3dEf6hIj9k --grace 7d')
    .action(rotate);

  keys
    .command('usage')
    .description('requests, hotels and bytes served, by day (UTC) and key, the last day first')
    .argument('[id]', 'the id that create and list print (default: all keys)')
    .option('--days <n>', `the last days, today included, at most ${MAX_DAYS}`, parseWhole(1, MAX_DAYS), 30)
    .json('an array of {"day","id","name","requests","hotels","bytes"}')
    .addHelpText(
      'after',
      `
Instances write what they have served once a minute. Responses 429 and 5xx do not count. Bytes are those of bodies as
sent.`,
    )
    .examples('hotel-api keys usage', 'hotel-api keys usage key_Ab3dEf6hIj9k --days 7 --json')
    .action(usage);
}

async function create({
  scope,
  expires,
  json,
  ...options
}: KeyOptions & { scope?: string; expires?: string; json?: boolean }): Promise<void> {
  const key = await withDatabase(async (sql) => {
    if (options.collection) await requireCollection(sql, options.collection);
    return createKey(sql, { ...options, scopes: scope ? [scope] : [], expiresAt: expires });
  });
  print(json, key, SHOWN_ONCE);
}

/**
 * Creates a key and stores its hash. Only the return value contains the key itself. It has `rate_limit` (such as 200/s) and
 * `collection` only if there is one; `expires_at` is an ISO time in UTC or null.
 */
export async function createKey(
  sql: Sql | TransactionSql,
  { name, scopes = [], expiresAt = null, rateLimit = null, collection = null, note = null }: KeyOptions,
) {
  const key = makeKey();
  const id = `key_${randomBytes(9).toString('base64url')}`;
  const [row] = await sql`
    insert into api_keys (id, name, key_sha256, scopes, expires_at, rate_limit_requests, rate_limit_window_s,
      collection_id, created_note)
    values (${id}, ${name}, ${Buffer.from(hashOf(key), 'hex')}, ${scopes}, ${expiresAt},
      ${rateLimit?.requests ?? null}, ${rateLimit && rateLimit.windowMs / 1000}, ${collection}, ${note})
    returning expires_at, ${rateLimitIn(sql)} as rate_limit`;
  return {
    ...{ id, name, key, scopes, expires_at: isoTime(row!.expires_at) },
    ...(rateLimit && { rate_limit: row!.rate_limit }),
    ...(collection !== null && { collection }),
  };
}

/** Prints all keys: to a person without those facts that only `--json` has room for. */
async function list({ json }: { json?: boolean }): Promise<void> {
  const keys = await withDatabase(
    (sql) => sql`
      select id, name, scopes, created_at, expires_at, revoked_at, ${rateLimitIn(sql)} as rate_limit, collection_id as collection,
        rotated_to, created_by, created_note, revoked_by, revoked_note,
        (select max(last_used_at) from hotel_api_usage where key_id = id) as last_used_at,
        case when revoked_at <= now() then 'revoked' when expires_at <= now() then 'expired'
          when rotated_to is not null then 'rotated' else 'active' end as state
      from api_keys order by api_keys.created_at, id`,
  );
  const shown = keys.map(({ id, name, scopes, rate_limit, collection, ...rest }) => {
    const { expires_at, last_used_at, state, rotated_to } = rest;
    return { id, name, scopes, rate_limit, collection, expires_at, last_used_at, state, rotated_to };
  });
  print(json, keys, '', shown);
}

/** Selects the rate limit of a key as the command line takes it, such as 200/s. */
function rateLimitIn(sql: Sql | TransactionSql) {
  return sql`rate_limit_requests || '/' || case rate_limit_window_s when 1 then 's' when 60 then 'm' else 'h' end`;
}

/** Revokes a key; revoking it again changes nothing. */
async function revoke(id: string, { note, json }: { note?: string; json?: boolean }): Promise<void> {
  const row = await withDatabase(async (sql) => {
    await sql`
      update api_keys set revoked_at = now(), revoked_by = session_user, revoked_note = ${note ?? null}
      where id = ${id} and revoked_at is null`;
    const [found] = await sql`select id, name, revoked_at, rotated_to from api_keys where id = ${id}`;
    return found ?? unknownKey(id);
  });
  const successor = row.rotated_to ? `The key ${row.rotated_to} remains valid unless it is revoked too.` : '';
  print(json, row, successor);
}

/** Sets the rate limit of a key; null removes it. */
async function limit(id: string, rateLimit: RateLimit | null, { json }: { json?: boolean }): Promise<void> {
  const limited = await withDatabase(async (sql) => {
    const [row] = await sql`
      update api_keys set rate_limit_requests = ${rateLimit?.requests ?? null},
        rate_limit_window_s = ${rateLimit && rateLimit.windowMs / 1000}
      where id = ${id} returning id, name, ${rateLimitIn(sql)} as rate_limit`;
    return row ?? unknownKey(id);
  });
  print(json, limited);
}

/**
 * Creates a key with the name, scopes, rate limit, collection and expiry of the old one. The old key remains valid for
 * `graceS` seconds, but never beyond its own expiry. Throws a `Failure` for a key that is unknown or not current.
 */
async function rotate(
  id: string,
  { grace: graceS = DAY_S, note, json }: { grace?: number; note?: string; json?: boolean },
): Promise<void> {
  const [created, validUntil] = await withDatabase((sql) =>
    sql.begin(async (transaction) => {
      const [found] = await transaction`
        select *, revoked_at is not null as revoked, coalesce(expires_at <= now(), false) as expired
        from api_keys where id = ${id} for update`;
      const old = found ?? unknownKey(id);
      const { rate_limit_requests: requests } = old;
      if (old.revoked) throw new Failure(`Key ${id} is revoked. Create a new one: hotel-api keys create`);
      if (old.rotated_to)
        throw new Failure(
          `Key ${id} was already rotated. Rotate its successor: hotel-api keys rotate ${old.rotated_to}`,
        );
      if (old.expired)
        throw new Failure(
          `Key ${id} expired at ${isoTime(old.expires_at)}. Create a new one: hotel-api keys create`,
        );
      const successor = await createKey(transaction, {
        name: old.name,
        scopes: old.scopes,
        expiresAt: isoTime(old.expires_at),
        rateLimit: requests && { requests, windowMs: 1000 * old.rate_limit_window_s },
        collection: old.collection_id,
        note,
      });
      const [row] = await transaction`
        update api_keys
        set rotated_to = ${successor.id}, expires_at = least(expires_at, now() + ${graceS} * interval '1 second')
        where id = ${id} returning expires_at`;
      return [successor, isoTime(row!.expires_at)] as const;
    }),
  );
  print(json, created, `${SHOWN_ONCE}\nThe old key ${id} remains valid until ${validUntil}.`);
}

async function usage(
  id: string | undefined,
  { days, json }: { days: number; json?: boolean },
): Promise<void> {
  const rows = await withDatabase(async (sql) => {
    const found = await sql`
      select day::text, key_id as id, name, requests::float8, hotels::float8, bytes::float8
      from hotel_api_usage left join api_keys on api_keys.id = key_id
      where day > (now() at time zone 'UTC')::date - ${days}::integer and key_id = coalesce(${id ?? null}, key_id)
      order by day desc, key_id collate "C"`;
    const known =
      id === undefined || found.length > 0 || (await sql`select from api_keys where id = ${id}`).length > 0;
    return known ? found : unknownKey(id);
  });
  print(json, rows);
}

function unknownKey(id: string): never {
  throw new Failure(`There is no key with the id ${JSON.stringify(id)}. List them: hotel-api keys list`);
}
