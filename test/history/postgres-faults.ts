import { setTimeout as sleep } from 'node:timers/promises';
import { addressOf } from '../support/address.ts';
import { Database } from './database.ts';
import {
  type FaultContext,
  type Kind,
  losingCommits,
  onAllInstances,
  path,
  recordFault,
} from './fault-kinds.ts';
import {
  copyDatabase,
  restoreFolder,
  restoreTables,
  saveFolder,
  saveTables,
  swapDatabase,
} from './restores.ts';
import { HOTELS } from './steps.ts';
import { UPDATE, write } from './writes.ts';

/** Makes a few changes that are visible just before the fault. */
async function changeFirst({ system, step }: FaultContext): Promise<void> {
  const hotels = [0, 7, 19, 23].map((i) => (i + step.forMs) % HOTELS);
  await write(system.databases[0]!, { ...UPDATE, hotels, token: step.forMs }, 'last');
  await sleep(100 + (step.forMs % 400));
}

/** Waits until the replica has replayed what is committed now. Returns false if it does not. */
async function isReplayed({ system }: FaultContext): Promise<boolean> {
  let replayed = false;
  await system.asAdmin(async (sql) => {
    const [{ lsn } = { lsn: '' }] = await sql<{ lsn: string }[]>`select pg_current_wal_lsn()::text as lsn`;
    for (let attempt = 0; attempt < 50 && !replayed; attempt++) {
      await sleep(20);
      const rows = await sql`select 1 from pg_stat_replication where replay_lsn >= ${lsn}::text::pg_lsn`;
      replayed = rows.length > 0;
    }
  });
  return replayed;
}

export const POSTGRES_FAULTS = {
  'postgres killed': {
    uses: 'postgres',
    run: async (context) => {
      await changeFirst(context);
      await losingCommits(async ({ system, step }) => {
        await system.primary.kill();
        await sleep(step.forMs);
        await system.primary.restart();
      })(context);
    },
  },
  'postgres frozen': {
    uses: 'postgres',
    run: onAllInstances(
      ({ system }) => system.primary.freeze(),
      ({ system }) => system.primary.thaw(),
      ({ system }) => system.served,
    ),
  },
  'postgres backends ended': {
    uses: 'postgres',
    run: onAllInstances(({ system }) =>
      system.asAdmin(
        (sql) => sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()`,
      ),
    ),
  },
  'postgres unreachable': path('postgres', 'blackout'),
  'postgres half open': path('postgres', 'halfOpen'),
  'postgres reset': path('postgres', 'reset'),
  'log unreachable': path('postgres', 'blackout', 'hotel-api follow'),
  'log slow': path('postgres', 'throttle', 'hotel-api follow'),
  'database saved': {
    uses: 'postgres',
    run: async ({ system, results }) => {
      await saveTables(system.databases[0]!.sql);
      results.hasTables = true;
    },
  },
  'database restored in place': {
    uses: 'postgres',
    run: losingCommits(async ({ system, results }) => {
      if (results.hasTables) await restoreTables(system.databases[0]!);
    }),
  },
  'data folder saved': {
    uses: 'postgres',
    run: async (context) =>
      recordFault(context, context.system.served, async () => {
        context.results.folder = await saveFolder(context.system.primary, context.system.databases[0]!.sql);
      }),
  },
  'data folder restored': {
    uses: 'postgres',
    run: losingCommits(async ({ system, results }) => {
      await system.primary.kill();
      // a database created since would be lost
      if (results.folder && system.databases.length === 1) {
        await restoreFolder(results.folder);
        // its log contradicts that of the restored primary: it would end at a record that it cannot replay
        await system.replica?.server.kill();
        system.replica = undefined;
      }
      await system.primary.restart();
    }),
  },
  'copy saved': {
    uses: 'postgres',
    run: losingCommits(async ({ system, results }) => {
      await copyDatabase(system, 'saved');
      results.hasCopy = true;
    }),
  },
  'copy put in place': {
    uses: 'postgres',
    run: losingCommits(async ({ system, results }) => {
      if (results.hasCopy) await swapDatabase(system, 'saved');
      results.hasCopy = undefined;
    }),
  },
  'copy served beside': { uses: 'postgres', run: serveCopy },
  'replica promoted': {
    uses: 'postgres',
    run: async (context) => {
      const { replica } = context.system;
      // it may lack a database created since
      if (!replica || context.system.databases.length > 1) return;
      // else it may lack half of a step that replaces the database, and no database has the name then
      if (!(await isReplayed(context))) return;
      replica.link.blackout();
      await sleep(context.step.forMs);
      await changeFirst(context);
      await losingCommits(async ({ system, results }) => {
        await system.primary.kill();
        system.follow(replica.server);
        system.replica = undefined;
        // of the old primary
        results.folder = results.hasCopy = results.hasTables = undefined;
        await system.asAdmin((sql) => sql`select pg_promote(true, 30)`);
      })(context);
    },
  },
} satisfies Record<string, Kind>;

/** Serves a copy of the database by another instance on the same Redis, and changes it independently. */
async function serveCopy(context: FaultContext): Promise<void> {
  const { system } = context;
  if (system.databases.length > 1) return;
  await losingCommits(() => copyDatabase(system, 'copy'))(context);
  const of = (url: string) => addressOf(url, { database: 'copy' });
  const database = await Database.open(of(system.ownerUrl), 'copy');
  for (let token = 0; token < HOTELS; token += 2)
    await write(database, { ...UPDATE, hotels: [token], token }, 'copy');
  system.databases.push(database);
  await system.serve('copy', database, of(system.url));
}
