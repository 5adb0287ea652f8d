import type { Sql } from 'postgres';
import { hashOf, makeKey } from '../../src/auth/key.ts';

/** Creates a key with these scopes, of a collection or none, and stores its hash. */
export async function insertKey(
  sql: Sql,
  scopes: string[],
  collection: string | null = null,
): Promise<string> {
  const key = makeKey();
  const hash = hashOf(key);
  await sql`insert into api_keys (id, name, key_sha256, scopes, collection_id)
    values (${`test-${hash.slice(0, 12)}`}, 'test', ${Buffer.from(hash, 'hex')}, ${scopes}, ${collection})`;
  return key;
}
