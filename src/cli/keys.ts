import { randomBytes } from 'node:crypto';
import type { Row, Sql, TransactionSql } from 'postgres';
import { hashOf, makeKey } from '../auth/key.ts';
import { Failure } from '../lib/failure.ts';
import type { RateLimit } from '../rate-limit/rate-limit.ts';

const UNITS = { 1000: 's', 60000: 'm', 3600000: 'h' };

/** New key as printed once. `expires_at` is an ISO time in UTC or null. */
export interface NewKey {
  id: string;
  name: string;
  key: string;
  scopes: string[];
  expires_at: string | null;
  /** such as 200/s; absent without a limit */
  rate_limit?: string;
  /** absent if the key sees all hotels */
  collection?: string;
}

/** Key in a list. Times are ISO, in UTC. */
export interface ListedKey {
  id: string;
  name: string;
  scopes: string[];
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  /** such as 200/s */
  rate_limit: string | null;
  /** null: the key sees all hotels */
  collection: string | null;
  /** id of its successor */
  rotated_to: string | null;
  /** `rotated`: still valid, until `expires_at` */
  state: 'active' | 'rotated' | 'expired' | 'revoked';
}

/** Creates a key and stores its hash. Only the return value contains the key itself. */
export async function createKey(
  sql: Sql | TransactionSql,
  {
    name,
    scopes,
    expiresAt,
    rateLimit = null,
    collection = null,
  }: {
    name: string;
    scopes: string[];
    expiresAt: string | null;
    rateLimit?: RateLimit | null;
    collection?: string | null;
  },
): Promise<NewKey> {
  const key = makeKey();
  const id = `key_${randomBytes(9).toString('base64url')}`;
  const [row] = await sql`
    insert into api_keys (id, name, key_sha256, scopes, expires_at, rate_limit_requests, rate_limit_window_s,
      collection_id)
    values (${id}, ${name}, ${Buffer.from(hashOf(key), 'hex')}, ${scopes}, ${expiresAt},
      ${rateLimit?.requests ?? null}, ${rateLimit && rateLimit.windowMs / 1000}, ${collection})
    returning expires_at`;
  return {
    ...{ id, name, key, scopes, expires_at: iso(row!.expires_at) },
    ...(rateLimit && { rate_limit: written(rateLimit)! }),
    ...(collection !== null && { collection }),
  };
}

/** Returns all keys, oldest first. */
export async function listKeys(sql: Sql): Promise<ListedKey[]> {
  const rows = await sql`
    select id, name, scopes, created_at, expires_at, revoked_at, rotated_to, collection_id, ${limitColumns(sql)},
      case when revoked_at <= now() then 'revoked' when expires_at <= now() then 'expired'
        when rotated_to is not null then 'rotated' else 'active' end as state
    from api_keys order by created_at, id`;
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    scopes: row.scopes,
    created_at: iso(row.created_at)!,
    expires_at: iso(row.expires_at),
    revoked_at: iso(row.revoked_at),
    rate_limit: written(limitOf(row)),
    collection: row.collection_id,
    rotated_to: row.rotated_to,
    state: row.state,
  }));
}

/** Revokes a key; revoking it again changes nothing. Throws a `Failure` for an unknown id. */
export async function revokeKey(
  sql: Sql,
  id: string,
): Promise<{ id: string; name: string; revoked_at: string; rotated_to: string | null }> {
  await sql`update api_keys set revoked_at = now() where id = ${id} and revoked_at is null`;
  const [row] = await sql`select name, revoked_at, rotated_to from api_keys where id = ${id}`;
  if (!row) throw unknownKey(id);
  return { id, name: row.name, revoked_at: iso(row.revoked_at)!, rotated_to: row.rotated_to };
}

/** Sets the rate limit of a key; null removes it. Throws a `Failure` for an unknown id. */
export async function limitKey(
  sql: Sql,
  id: string,
  rateLimit: RateLimit | null,
): Promise<{ id: string; name: string; rate_limit: string | null }> {
  const [row] = await sql`
    update api_keys set rate_limit_requests = ${rateLimit?.requests ?? null},
      rate_limit_window_s = ${rateLimit && rateLimit.windowMs / 1000}
    where id = ${id} returning name`;
  if (!row) throw unknownKey(id);
  return { id, name: row.name, rate_limit: written(rateLimit) };
}

/**
 * Creates a key with the name, scopes, rate limit, collection and expiry of the old one, which remains valid for `graceS`
 * seconds, but never beyond its own expiry. Throws a `Failure` for a key that is unknown or not current.
 */
export async function rotateKey(
  sql: Sql,
  id: string,
  graceS: number,
): Promise<{ created: NewKey; replaced: string; replaced_expires_at: string }> {
  return sql.begin(async (transaction) => {
    const [old] = await transaction`
      select name, scopes, expires_at, rotated_to, collection_id, ${limitColumns(transaction)}, revoked_at is not null as revoked,
        coalesce(expires_at <= now(), false) as expired
      from api_keys where id = ${id} for update`;
    if (!old) throw unknownKey(id);
    if (old.revoked) throw new Failure(`Key ${id} is revoked. Create a new one: hotel-api keys create`);
    if (old.rotated_to)
      throw new Failure(
        `Key ${id} was already rotated. Rotate its successor: hotel-api keys rotate ${old.rotated_to}`,
      );
    if (old.expired)
      throw new Failure(
        `Key ${id} expired at ${iso(old.expires_at)}. Create a new one: hotel-api keys create`,
      );
    const created = await createKey(transaction, {
      name: old.name,
      scopes: old.scopes,
      expiresAt: iso(old.expires_at),
      rateLimit: limitOf(old),
      collection: old.collection_id,
    });
    const [row] = await transaction`
      update api_keys
      set rotated_to = ${created.id}, expires_at = least(expires_at, now() + ${graceS} * interval '1 second')
      where id = ${id} returning expires_at`;
    return { created, replaced: id, replaced_expires_at: iso(row!.expires_at)! };
  });
}

function limitColumns(sql: Sql | TransactionSql) {
  return sql`rate_limit_requests, rate_limit_window_s`;
}

function limitOf({ rate_limit_requests, rate_limit_window_s }: Row): RateLimit | null {
  return rate_limit_requests === null
    ? null
    : { requests: rate_limit_requests, windowMs: 1000 * rate_limit_window_s };
}

function written(limit: RateLimit | null): string | null {
  return limit && `${limit.requests}/${UNITS[limit.windowMs as keyof typeof UNITS]}`;
}

function unknownKey(id: string): Failure {
  return new Failure(`There is no key with the id ${JSON.stringify(id)}. List them: hotel-api keys list`);
}

function iso(time: Date | null): string | null {
  // JavaScript has no time for `infinity` of SQL: such a key does not expire
  return time === null || Number.isNaN(time.getTime()) ? null : time.toISOString();
}
