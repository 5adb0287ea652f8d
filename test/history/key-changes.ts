import type { Sql } from 'postgres';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import type { Database } from './database.ts';
import { KEYS, type Step } from './steps.ts';
import { crossingTransactions } from './writes.ts';

type KeyStep = Extract<Step, { do: 'key' }>;

/** Keys of an episode: two that never change, and those that do. */
export class Keys {
  readonly full = makeKey();
  readonly narrow = makeKey();
  readonly changing = Array.from({ length: KEYS }, makeKey);
  /** a key that is never stored */
  readonly unknown = makeKey();

  async insertAll(sql: Sql): Promise<void> {
    await sql`
      insert into public.api_keys (id, name, key_sha256, scopes) values
        ('full', 'full', ${bytesOf(this.full)}, '{registry}'), ('narrow', 'narrow', ${bytesOf(this.narrow)}, '{}')`;
    for (const i of this.changing.keys()) await this.#insert(sql, i, i % 2 === 0);
  }

  /** Changes a key. With `isTimeless` no key expires. */
  async change(database: Database, { change, key, other }: KeyStep, isTimeless: boolean): Promise<void> {
    if (isTimeless && (change === 'expire' || change === 'rotate')) return;
    const hash = bytesOf(this.changing[key]!);
    const set = (sql: Sql, changed: Record<string, unknown>) =>
      sql`update public.api_keys set ${sql(changed)} where key_sha256 = ${hash}`;
    const remove = (sql: Sql) => sql`delete from public.api_keys where key_sha256 = ${hash}`;
    const work: Record<Exclude<KeyStep['change'], 'cross'>, (sql: Sql) => Promise<unknown>> = {
      create: (sql) => this.#insert(sql, key, true),
      revoke: (sql) => set(sql, { revoked_at: new Date() }),
      restore: (sql) => set(sql, { revoked_at: null, expires_at: null }),
      delete: remove,
      scopes: (sql) => sql`
        update public.api_keys set scopes = case when scopes = '{}' then '{registry}' else '{}' end::text[]
        where key_sha256 = ${hash}`,
      expire: (sql) => sql`
        update public.api_keys set expires_at = clock_timestamp() + interval '2 s' where key_sha256 = ${hash}`,
      rotate: async (sql) => {
        await this.#insert(sql, other, true);
        await sql`
          update public.api_keys set expires_at = clock_timestamp() + interval '1 s' where key_sha256 = ${hash}`;
      },
      rehash: (sql) => sql`
        update public.api_keys set key_sha256 = ${bytesOf(this.changing[other]!)} where key_sha256 = ${hash}
          and not exists (select from public.api_keys where key_sha256 = ${bytesOf(this.changing[other]!)})`,
      reinsert: async (sql) => {
        await remove(sql);
        await this.#insert(sql, key, false);
      },
      truncate: async (sql) => {
        await sql`truncate public.api_keys`;
        await this.insertAll(sql);
      },
    };
    if (change === 'cross') {
      const rename = (sql: Sql) =>
        sql`update public.api_keys set name = 'crossed' where key_sha256 = ${hash}`;
      await crossingTransactions(database, 800, rename, (sql) => this.#insert(sql, key, true, false), remove);
    } else if (change === 'truncate') {
      await database.lockingTransaction(work.truncate);
    } else {
      await database.transaction(async (sql) => void (await work[change](sql)));
    }
  }

  /** Inserts a key; with `quietly` an existing one stays unchanged. */
  #insert(sql: Sql, i: number, hasScope: boolean, ignoreExisting = true): Promise<unknown> {
    const scopes = hasScope ? ['registry'] : [];
    return sql`
      insert into public.api_keys (id, name, key_sha256, scopes)
      values (${`k${Math.random()}`.replace('.', '')}, 'changing', ${bytesOf(this.changing[i]!)}, ${scopes})
      ${ignoreExisting ? sql`on conflict do nothing` : sql``}`;
  }
}

const bytesOf = (key: string) => Buffer.from(hashOf(key), 'hex');
