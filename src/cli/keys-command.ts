import type { RateLimit } from '../rate-limit/rate-limit.ts';
import { requireCollection } from './collections/collections.ts';
import { createKey, type ListedKey, limitKey, listKeys, type NewKey, revokeKey, rotateKey } from './keys.ts';
import { print, withDatabase } from './session.ts';

/** Runs `keys create`. */
export async function create(options: {
  name: string;
  scope: string[];
  expires?: string;
  rateLimit: RateLimit | null;
  collection?: string;
  json?: boolean;
}): Promise<void> {
  const { name, scope, expires = null, rateLimit, collection, json } = options;
  const key = await withDatabase(async (sql) => {
    if (collection !== undefined) await requireCollection(sql, collection);
    return createKey(sql, { name, scopes: scope, expiresAt: expires, rateLimit, collection });
  });
  print(json, key, describeNewKey(key));
}

/** Runs `keys list`. */
export async function list({ json }: { json?: boolean }): Promise<void> {
  const keys = await withDatabase(listKeys);
  print(
    json,
    keys,
    keys.length === 0 ? 'There are no keys yet. Create one: hotel-api keys create --name NAME' : table(keys),
  );
}

/** Runs `keys revoke ID`. */
export async function revoke(id: string, { json }: { json?: boolean }): Promise<void> {
  const revoked = await withDatabase((sql) => revokeKey(sql, id));
  const successor = revoked.rotated_to
    ? `\nIt was rotated to ${revoked.rotated_to}, which remains valid unless it is revoked too.`
    : '';
  print(json, revoked, `Key ${id} (${revoked.name}) was revoked at ${revoked.revoked_at}.${successor}`);
}

/** Runs `keys limit ID RATE`. */
export async function limit(
  id: string,
  rateLimit: RateLimit | null,
  { json }: { json?: boolean },
): Promise<void> {
  const limited = await withDatabase((sql) => limitKey(sql, id, rateLimit));
  const now = limited.rate_limit ? `may be used ${limited.rate_limit}` : 'may be used without limit';
  print(json, limited, `Key ${id} (${limited.name}) ${now}.`);
}

/** Runs `keys rotate ID`. */
export async function rotate(id: string, { grace, json }: { grace: number; json?: boolean }): Promise<void> {
  const { created, replaced, replaced_expires_at } = await withDatabase((sql) => rotateKey(sql, id, grace));
  print(
    json,
    created,
    `${describeNewKey(created)}\n\nThe old key ${replaced} remains valid until ${replaced_expires_at}.`,
  );
}

function describeNewKey({ id, name, key, scopes, expires_at, rate_limit, collection }: NewKey): string {
  return [
    `id       ${id}`,
    `name     ${name}`,
    `scopes   ${scopes.join(', ') || 'none'}`,
    `expires  ${expires_at ?? 'never'}`,
    ...(rate_limit ? [`limit    ${rate_limit}`] : []),
    ...(collection === undefined ? [] : [`sees     collection ${printed(collection)}`]),
    `key      ${key}`,
    '',
    'The key is shown only now: only its hash is stored.',
  ].join('\n');
}

/** Escapes line breaks, so that a text takes one line of a terminal. */
function printed(text: string): string {
  return text.replace(/\p{Cc}/gu, ' ');
}

function table(keys: ListedKey[]): string {
  const rows = keys.map((key) => [
    key.id,
    printed(key.name),
    key.scopes.join(',') || '-',
    key.rate_limit ?? '-',
    key.collection === null ? 'all hotels' : printed(key.collection),
    key.created_at.slice(0, 19),
    key.expires_at?.slice(0, 19) ?? 'never',
    key.state === 'rotated' ? `rotated to ${key.rotated_to}, valid until ${key.expires_at}` : key.state,
  ]);
  rows.unshift([
    'ID',
    'NAME',
    'SCOPES',
    'RATE LIMIT',
    'COLLECTION',
    'CREATED (UTC)',
    'EXPIRES (UTC)',
    'STATE',
  ]);
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
