import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { copyIn, copyRow } from '../../src/cli/common/copy.ts';
import type { Database } from './database.ts';
import { HOTELS, type Step } from './steps.ts';

type WriteStep = Extract<Step, { do: 'write' }>;

/** Update by the owner, committed at once. */
export const UPDATE = { do: 'write', write: 'update', as: 'owner', end: 'commit', holdMs: 0 } as const;

/** Role with rights on the tables only. */
export const PLAIN_WRITER = 'plain_writer';

export const hotelId = (i: number) => `h${i}`;
export const channelId = (i: number) => `C${i}`;
export const registryId = (i: number) => 1_000 + i;

/** Returns the row of a hotel; one in three is longer. */
function rowOf(i: number, name: string) {
  const row = { id: hotelId(i), name, description: descriptionOf(i, name), images: [] };
  return { ...row, channel_id: channelId(i), registry_id: registryId(i) };
}

const descriptionOf = (i: number, name: string) => `of ${name} `.repeat(i % 3 === 0 ? 40 : 1).trim();

const AS: Record<WriteStep['as'], string> = {
  owner: '',
  replication: 'set local session_replication_role = replica',
  'without a path': "set local search_path = ''",
  'without rights': `set local role ${PLAIN_WRITER}`,
};

/** Runs the write of a step; `prefix` begins the names that it writes. Resolves when its transaction has ended. */
export async function write(database: Database, step: WriteStep, prefix = 'v'): Promise<void> {
  const name = `${prefix}${step.token}`;
  const hotels = [...new Set(step.hotels)];
  if (step.write === 'cross') return cross(database, step, hotels[0]!, name);
  const work = WORK[step.write];
  const run = async (sql: Sql) => {
    if (AS[step.as]) await sql.unsafe(AS[step.as]);
    await work(sql, hotels, name);
  };
  if (step.write === 'truncate and copy') await database.lockingTransaction(run);
  else await database.transaction(run, step.end, step.holdMs);
}

type Work = (sql: Sql, hotels: number[], name: string) => Promise<unknown>;

const WORK: Record<Exclude<WriteStep['write'], 'cross'>, Work> = {
  update: (sql, hotels, name) => sql`
    update public.hotels set name = ${name}, description = ${`of ${name}`} where id = any (${hotels.map(hotelId)})`,
  'update all': (sql, _, name) => sql`update public.hotels set name = ${name} where id < 'i'`,
  'update seldom': (sql, hotels, name) => sql`
    update public.hotels set name = ${name}
    where id between 'y' and 'z' and right(id, 1) = any (${hotels.map((i) => String(i % 10))})`,
  insert: (sql, hotels, name) => insert(sql, hotels, name),
  delete: (sql, hotels) => sql`delete from public.hotels where id = any (${hotels.map(hotelId)})`,
  upsert: (sql, hotels, name) => sql`
    insert into public.hotels (id, name, description)
    select id, ${name}, ${`of ${name}`} from unnest(${hotels.map(hotelId)}::text[]) as id
    on conflict (id) do update set name = excluded.name, description = excluded.description`,
  rename: (sql, [from, to = from], name) => sql`
    update public.hotels set id = ${hotelId(to!)}, name = ${name} where id = ${hotelId(from!)}
      and not exists (select from public.hotels where id = ${hotelId(to!)})`,
  'swap channels': (sql, hotels) => swap(sql, hotels, 'channel_id'),
  'swap registries': (sql, hotels) => swap(sql, hotels, 'registry_id'),
  'truncate and copy': async (sql, hotels, name) => {
    await sql`truncate public.hotels`;
    await copy(
      sql,
      [...Array(HOTELS).keys()].filter((i) => !hotels.includes(i)),
      name,
    );
  },
  'delete and copy': async (sql, hotels, name) => {
    await sql`delete from public.hotels where id = any (${hotels.map(hotelId)})
      or channel_id = any (${hotels.map(channelId)}) or registry_id = any (${hotels.map((i) => String(registryId(i)))}::bigint[])`;
    await copy(sql, hotels, name);
  },
  merge: (sql, hotels, name) => sql`
    merge into public.hotels using unnest(${hotels.map(hotelId)}::text[]) as wanted on hotels.id = wanted
    when matched and length(wanted) = 2 then delete
    when matched then update set name = ${name}, description = ${`of ${name}`}
    when not matched then insert (id, name, description) values (wanted, ${name}, ${`of ${name}`})`,
};

/** Hotels that are rarely requested, so that most are not cached. */
const RARE = 600;
/** Number of hotels that are not checked: they make the comparison of the caches take longer than the bounds. */
const OTHERS = 3_000;
const channelsOf = (letter: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${letter}${i}`);
export const RARE_CHANNELS = channelsOf('Y', RARE);
export const OTHER_CHANNELS = channelsOf('Z', OTHERS);

export async function insertOthers(sql: Sql): Promise<void> {
  for (const channels of [RARE_CHANNELS, OTHER_CHANNELS])
    await sql`
      insert into hotels (id, name, channel_id)
      select lower(channel), 'other', channel from unnest(${channels}::text[]) as channel`;
}

/** Inserts hotels; those with a conflict are skipped. */
export async function insert(sql: Sql, hotels: number[], name: string): Promise<void> {
  await sql`
    insert into public.hotels (id, name, description, images, channel_id, registry_id)
    select id, name, description, images, channel_id, registry_id
    from jsonb_populate_recordset(null::public.hotels, ${sql.json(hotels.map((i) => rowOf(i, name)) as never)})
    on conflict do nothing`;
}

async function copy(sql: Sql, hotels: number[], name: string): Promise<void> {
  await copyIn(
    sql,
    'copy public.hotels (id, name, description, channel_id, registry_id) from stdin',
    function* () {
      for (const i of hotels) yield copyRow([hotelId(i), name, `of ${name}`, channelId(i), registryId(i)]);
    },
  );
}

/** Swaps the ids of two hotels; if one does not exist, the other loses its id. */
async function swap(sql: Sql, hotels: number[], column: 'channel_id' | 'registry_id'): Promise<void> {
  const ids = hotels.slice(0, 2).map(hotelId);
  const rows = await sql`
    select id, ${sql(column)} as held from public.hotels where id = any (${ids}) order by id for update`;
  await sql`update public.hotels set ${sql(column)} = null where id = any (${ids})`;
  for (const [i, { id }] of rows.entries()) {
    const other = rows[rows.length - 1 - i]!;
    await sql`update public.hotels set ${sql(column)} = ${other.held} where id = ${id}`;
  }
}

/** Inserts in one transaction a hotel that another changed and then deletes: the younger row is of the older transaction. */
async function cross(database: Database, { holdMs }: WriteStep, hotel: number, name: string): Promise<void> {
  const id = hotelId(hotel);
  await crossingTransactions(
    database,
    holdMs,
    (sql) => sql`update public.hotels set name = ${`${name} a`} where id = ${id}`,
    (sql) => sql`insert into public.hotels (id, name, description) values (${id}, ${`${name} b`}, 'crossed')`,
    (sql) => sql`delete from public.hotels where id = ${id}`,
  );
}

/** Runs `change`, which takes a row's lock, then `insert` in another transaction, which waits for it; changes and deletes the row again. */
export async function crossingTransactions(
  database: Database,
  holdMs: number,
  change: (sql: Sql) => Promise<unknown>,
  insert: (sql: Sql) => Promise<unknown>,
  remove: (sql: Sql) => Promise<unknown>,
): Promise<void> {
  let second: Promise<void> | undefined;
  await database.transaction(async (sql) => {
    await change(sql);
    second = database.transaction(
      async (other) => void (await insert(other)),
      'commit',
      Math.min(holdMs, 800),
    );
    // the insert waits for the lock
    await sleep(150);
    await change(sql);
    await remove(sql);
  });
  await second;
}
