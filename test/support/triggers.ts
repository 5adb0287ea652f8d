import type { Sql } from 'postgres';

/** States of a trigger in the catalog, and their SQL. */
const FIRING = { O: 'enable', R: 'enable replica', A: 'enable always', D: 'disable' };

/** Runs `work` without the triggers of hotels and API keys, as restores with --disable-triggers do. */
export async function withoutTriggers<T>(sql: Sql, work: (sql: Sql) => Promise<T>): Promise<T> {
  return (await sql.begin(async (transaction) => {
    const triggers = await transaction<{ owner: string; name: string; firing: keyof typeof FIRING }[]>`
      select tgrelid::regclass as owner, tgname as name, tgenabled as firing from pg_trigger
      where tgrelid in ('hotels'::regclass, 'api_keys'::regclass) and not tgisinternal`;
    await transaction`alter table hotels disable trigger user`;
    await transaction`alter table api_keys disable trigger user`;
    const result = await work(transaction as unknown as Sql);
    for (const { owner, name, firing } of triggers)
      await transaction.unsafe(`alter table ${owner} ${FIRING[firing]} trigger ${name}`);
    return result;
  })) as T;
}
