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
import { onDatabase } from './common/session.ts';

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
    .action(onDatabase(create));

  keys
    .command('list')
    .description('list all keys with their state and their last use, without the keys and their hashes')
    .json('an array of keys')
    .examples('hotel-api keys list', 'hotel-api keys list --json')
    .action(onDatabase(list));

  keys
    .command('revoke')
    .description('revoke a key permanently; in force everywhere within one second')
    .argument('<id>', 'the id that create and list print')
    .option('--note <text>', 'a note that keys list --json shows', parseText(500))
    .json('{"id","name","revoked_at","rotated_to"}')
    .examples('hotel-api keys revoke key_Ab3dEf6hIj9k --note "found in a repository"')
    .action(onDatabase(revoke));

  keys
    .command('limit')
    .description('set the rate limit of a key; in force everywhere within one second')
    .argument('<id>', 'the id that create and list print')
    .argument('<rate>', '200/s, 6000/m, 100000/h or none', parseRateLimit)
    .json('{"id","name","rate_limit"}')
    .examples('hotel-api keys limit key_Ab3dEf6hIj9k 200/s', 'hotel-api keys limit key_Ab3dEf6hIj9k none')
    .action(onDatabase(limit));

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
    .action(onDatabase(rotate));

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
    .action(onDatabase(usage));
}

/** Creates a key, and prints it. */
async function create(
  sql: Sql,
  { scope, expires, ...options }: KeyOptions & { scope?: string; expires?: string },
) {
  if (options.collection) await requireCollection(sql, options.collection);
  const key = await createKey(sql, { ...options, scopes: scope ? [scope] : [], expiresAt: expires });
  return { printed: key, note: SHOWN_ONCE };
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
async function list(sql: Sql) {
  const printed = await sql`
    select id, name, scopes, ${rateLimitIn(sql)} as rate_limit, collection_id as collection, expires_at,
      (select max(last_used_at) from hotel_api_usage where key_id = id) as last_used_at, ${stateIn(sql)} as state,
      rotated_to, created_at, created_by, created_note, revoked_at, revoked_by, revoked_note
    from api_keys order by api_keys.created_at, id`;
  const shown = printed.map(
    ({ created_at, created_by, created_note, revoked_at, revoked_by, revoked_note, ...key }) => key,
  );
  return { printed, shown };
}

/** Selects the rate limit of a key as the command line takes it, such as 200/s. */
function rateLimitIn(sql: Sql | TransactionSql) {
  return sql`rate_limit_requests || '/' || case rate_limit_window_s when 1 then 's' when 60 then 'm' else 'h' end`;
}

/** Selects whether a key is active, revoked, expired or rotated. */
function stateIn(sql: Sql | TransactionSql) {
  return sql`case when revoked_at <= now() then 'revoked' when expires_at <= now() then 'expired'
    when rotated_to is not null then 'rotated' else 'active' end`;
}

/** Returns the row of a key with its `state`, locked until the transaction ends. Throws a `Failure` if there is none. */
async function readKey(sql: Sql | TransactionSql, id: string) {
  const [key] = await sql`select *, ${stateIn(sql)} as state from api_keys where id = ${id} for update`;
  if (key) return key;
  throw new Failure(`There is no key with the id ${JSON.stringify(id)}. List them: hotel-api keys list`);
}

/** Revokes a key; revoking it again changes nothing. */
async function revoke(sql: Sql, id: string, { note = null }: { note?: string | null }) {
  await sql`
    update api_keys set revoked_at = now(), revoked_by = session_user, revoked_note = ${note}
    where id = ${id} and revoked_at is null`;
  const { name, revoked_at, rotated_to } = await readKey(sql, id);
  const successor = rotated_to ? `The key ${rotated_to} remains valid unless it is revoked too.` : '';
  return { printed: { id, name, revoked_at, rotated_to }, note: successor };
}

/** Sets the rate limit of a key; null removes it. */
async function limit(sql: Sql, id: string, rateLimit: RateLimit | null) {
  await readKey(sql, id);
  const [printed] = await sql`
    update api_keys set rate_limit_requests = ${rateLimit?.requests ?? null},
      rate_limit_window_s = ${rateLimit && rateLimit.windowMs / 1000}
    where id = ${id} returning id, name, ${rateLimitIn(sql)} as rate_limit`;
  return { printed: printed! };
}

/**
 * Creates a key with the name, scopes, rate limit, collection and expiry of the old one. The old key remains valid for
 * `graceS` seconds, but never beyond its own expiry. Throws a `Failure` for a key that is unknown or not active.
 */
async function rotate(
  sql: Sql,
  id: string,
  { grace: graceS = DAY_S, note }: { grace?: number; note?: string },
) {
  return sql.begin(async (transaction) => {
    const old = await readKey(transaction, id);
    const { state, rotated_to, rate_limit_requests: requests } = old;
    if (state !== 'active') {
      const advice = rotated_to ? `rotate ${rotated_to}, its successor` : 'create';
      throw new Failure(`Key ${id} is ${state}. An active one is needed: hotel-api keys ${advice}`);
    }
    const printed = await createKey(transaction, {
      name: old.name,
      scopes: old.scopes,
      expiresAt: isoTime(old.expires_at),
      rateLimit: requests && { requests, windowMs: 1000 * old.rate_limit_window_s },
      collection: old.collection_id,
      note,
    });
    const [row] = await transaction`
      update api_keys
      set rotated_to = ${printed.id}, expires_at = least(expires_at, now() + ${graceS} * interval '1 second')
      where id = ${id} returning expires_at`;
    const until = isoTime(row!.expires_at);
    return { printed, note: `${SHOWN_ONCE}\nThe old key ${id} remains valid until ${until}.` };
  });
}

/** Prints what was served; a key that is deleted still has rows. */
async function usage(sql: Sql, id: string | undefined, { days }: { days: number }) {
  const printed = await sql`
    select day::text, key_id as id, name, requests::float8, hotels::float8, bytes::float8
    from hotel_api_usage left join api_keys on api_keys.id = key_id
    where day > (now() at time zone 'UTC')::date - ${days}::integer and key_id = coalesce(${id ?? null}, key_id)
    order by day desc, key_id collate "C"`;
  if (id !== undefined && printed.length === 0) await readKey(sql, id);
  return { printed };
}
