import type { Sql } from 'postgres';
import { hashOf, makeKey } from '../../src/auth/key.ts';

/** Makes a key with these scopes and stores its hash. */
export async function insertKey(sql: Sql, scopes: string[]): Promise<string> {
  const key = makeKey();
  const hash = hashOf(key);
  await sql`insert into api_keys (id, name, key_sha256, scopes)
    values (${`test-${hash.slice(0, 12)}`}, 'test', ${Buffer.from(hash, 'hex')}, ${scopes})`;
  return key;
}
