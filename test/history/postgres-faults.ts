import { setTimeout as sleep } from 'node:timers/promises';
import { Database } from './database.ts';
import { broken, disturbing, type Kind, losing, path, type Scene } from './disturbing.ts';
import {
  copyDatabase,
  restoreFolder,
  restoreTables,
  saveFolder,
  saveTables,
  swapDatabase,
} from './restores.ts';
import { HOTELS } from './steps.ts';
import { write } from './writes.ts';

/** Makes a few changes that are visible just before the fault. */
async function changeFirst({ system, step }: Scene): Promise<void> {
  const hotels = [0, 7, 19, 23].map((i) => (i + step.forMs) % HOTELS);
  const change = {
    write: 'update',
    as: 'owner',
    end: 'commit',
    holdMs: 0,
    hotels,
    token: step.forMs,
  } as const;
  await write(system.databases[0]!, { do: 'write', ...change }, 'last');
  await sleep(100 + (step.forMs % 400));
}

export const POSTGRES_FAULTS = {
  'postgres killed': {
    uses: 'postgres',
    run: async (scene) => {
      await changeFirst(scene);
      await losing(async ({ system, step }) => {
        await system.primary.kill();
        await sleep(step.forMs);
        await system.primary.restart();
      })(scene);
    },
  },
  'postgres frozen': {
    uses: 'postgres',
    run: async (scene) =>
      broken(scene, scene.system.served, scene.system.served, async () => {
        await scene.system.primary.freeze();
        await sleep(scene.step.forMs);
        await scene.system.primary.thaw();
      }),
  },
  'postgres backends ended': {
    uses: 'postgres',
    run: disturbing(({ system }) =>
      system.asAdmin(
        (sql) => sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()`,
      ),
    ),
  },
  'postgres unreachable': path('postgres', 'blackout'),
  'postgres half open': path('postgres', 'strand'),
  'postgres reset': path('postgres', 'reset'),
  'feed unreachable': path('postgres', 'blackout', 'hotel-api listen'),
  'invalidator unreachable': path('postgres', 'blackout', 'hotel-api invalidate'),
  'database saved': {
    uses: 'postgres',
    run: async ({ system, left }) => {
      await saveTables(system.databases[0]!.sql);
      left.hasTables = true;
    },
  },
  'database restored in place': {
    uses: 'postgres',
    run: losing(async ({ system, left }) => {
      if (left.hasTables) await restoreTables(system.databases[0]!.sql);
    }),
  },
  'data folder saved': {
    uses: 'postgres',
    run: async (scene) =>
      broken(scene, scene.system.served, scene.system.served, async () => {
        scene.left.folder = await saveFolder(scene.system);
      }),
  },
  'data folder restored': {
    uses: 'postgres',
    run: losing(async ({ system, left }) => {
      await system.primary.kill();
      // a database created since would be lost
      if (left.folder && system.databases.length === 1) await restoreFolder(left.folder);
      await system.primary.restart();
    }),
  },
  'copy saved': {
    uses: 'postgres',
    run: losing(async ({ system, left }) => {
      await copyDatabase(system, 'saved');
      left.hasCopy = true;
    }),
  },
  'copy put in place': {
    uses: 'postgres',
    run: losing(async ({ system, left }) => {
      if (left.hasCopy) await swapDatabase(system, 'saved');
      left.hasCopy = undefined;
    }),
  },
  'copy served beside': { uses: 'postgres', run: serveCopy },
  'replica promoted': {
    uses: 'postgres',
    run: async (scene) => {
      const { replica } = scene.system;
      // it may lack a database created since
      if (!replica || scene.system.databases.length > 1) return;
      replica.link.blackout();
      await sleep(scene.step.forMs);
      await changeFirst(scene);
      await losing(async ({ system, left }) => {
        await system.primary.kill();
        system.follow(replica.server);
        system.replica = undefined;
        // of the old primary
        left.folder = left.hasCopy = left.hasTables = undefined;
        await system.asAdmin((sql) => sql`select pg_promote(true, 30)`);
      })(scene);
    },
  },
} satisfies Record<string, Kind>;

/** Serves a copy of the database by another instance on the same Redis, and changes it independently. */
async function serveCopy(scene: Scene): Promise<void> {
  const { system } = scene;
  if (system.databases.length > 1) return;
  await losing(() => copyDatabase(system, 'copy'))(scene);
  const of = (url: string) => Object.assign(new URL(url), { pathname: '/copy' }).href;
  const database = await Database.open(of(system.ownerUrl), 'copy');
  const change = { write: 'update', as: 'owner', end: 'commit', holdMs: 0 } as const;
  for (let token = 0; token < HOTELS; token += 2) {
    await write(database, { do: 'write', ...change, hotels: [token], token }, 'copy');
  }
  system.databases.push(database);
  await system.serve('copy', database, of(system.url));
}
