import { rename, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Fault, faultsOf, type Reached } from '../support/faulty-system.ts';
import { readLogState } from '../support/log-state.ts';
import { run } from '../support/run.ts';
import type { Random, System } from './system.ts';

const DAY_MS = 86_400_000;
const IMPORTED = 600;
const LONGEST_MS = 3_000;

type Disturbance = (system: System, random: Random) => Promise<unknown>;

const endSessions =
  (...names: string[]): Disturbance =>
  ({ sql }) =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name in ${sql(names)}`;

/** Begins a fault, and ends it after a while. */
const lasting =
  (faultOf: (system: System) => Fault): Disturbance =>
  async (system, random) => {
    const { begin, end } = faultOf(system);
    await begin();
    await sleep(random(LONGEST_MS));
    await end();
  };

/** Stops processes of a service, and lets them continue. */
const frozen =
  (pidsOf: (workers: number[], primary: number) => number[]): Disturbance =>
  async ({ services }, random) => {
    const service = services[random(services.length)]!;
    const pids = pidsOf(await service.workerPids(), service.pid);
    for (const pid of pids) process.kill(pid, 'SIGSTOP');
    await sleep(random(LONGEST_MS));
    for (const pid of pids) if (isRunning(pid)) process.kill(pid, 'SIGCONT');
  };

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const KINDS = Object.keys(faultsOf({} as Reached)) as (keyof ReturnType<typeof faultsOf>)[];

const DISTURBANCES: Record<string, Disturbance> = {
  ...Object.fromEntries(
    KINDS.flatMap((kind) => [
      [`PostgreSQL ${kind}`, lasting(({ postgres }) => faultsOf(postgres)[kind])],
      [`Redis ${kind}`, lasting(({ redis }) => faultsOf(redis)[kind])],
    ]),
  ),
  'polls are ended': endSessions('hotel-api follow'),
  'connections are ended': endSessions('hotel-api follow', 'hotel-api serve'),
  'everything is invalid': ({ sql }) => sql`select hotel_api_invalidate()`,
  'Redis is emptied': ({ redis }) => redis.client.flushdb(),
  'Redis goes back': async ({ redis: { client } }, random) => {
    const dumps = new Map<string, Buffer>();
    for (const key of await client.keys('*')) {
      const dump = await client.dumpBuffer(key);
      if (dump) dumps.set(key, dump);
    }
    await sleep(random(LONGEST_MS));
    const work = client.multi().flushdb();
    for (const [key, dump] of dumps) work.restore(key, 0, dump);
    await work.exec();
  },
  'many are imported': ({ sql }) =>
    sql`insert into hotels (id, name) select 'import-' || i, 'imported' from generate_series(1, ${IMPORTED}) as i
      on conflict (id) do update set name = 'imported again'`,
  'hotels are truncated': ({ sql }) => sql`truncate hotels`,
  'memberships are truncated': ({ sql }) => sql`truncate collection_hotels`,
  'it is midnight': ({ clock }, random) =>
    clock.set(Math.ceil(clock.now() / DAY_MS) * DAY_MS + random(1_500) - 1_000),
  'PostgreSQL is restored': restore,
  'a worker is frozen': frozen(([worker]) => [worker!]),
  'a primary process is frozen': frozen((_, primary) => [primary]),
  'an instance is frozen': frozen((workers, primary) => [primary, ...workers]),
  'a worker is killed': async ({ services }, random) => {
    const [worker] = await services[random(services.length)]!.workerPids();
    process.kill(worker!, 'SIGKILL');
  },
};

/** Puts back the data folder of a moment before. */
async function restore(system: System, random: Random): Promise<void> {
  const { sql, postgres } = system;
  const [at] = await sql<{ data_directory: string }[]>`show data_directory`;
  const data = at!.data_directory;
  for (const folder of [`${data}.saved`, `${data}.lost`]) await rm(folder, { recursive: true, force: true });
  await postgres.server.freeze();
  await run('cp', ['-a', data, `${data}.saved`]);
  await postgres.server.thaw();
  await rm(`${data}.saved/postmaster.pid`);
  // without a position since, the snapshot looks like a restart: see docs/guarantees.md
  const { last } = await readLogState(sql);
  await sql`insert into hotels (id, name) values ('announced', 'a') on conflict (id) do update set name = hotels.name || 'a'`;
  while ((await readLogState(sql)).last <= last) await sleep(20);
  await sleep(300 + random(700));
  // what was everywhere may be lost
  system.floor = new Map();
  await postgres.server.kill();
  await rename(data, `${data}.lost`);
  await rename(`${data}.saved`, data);
  await postgres.server.restart();
}

/** Disturbs the system three times, in ways drawn at random. Returns their names. */
export async function disturb(system: System, random: Random): Promise<string[]> {
  const names = Object.keys(DISTURBANCES);
  // nothing of Redis is trusted, so its faults are drawn twice as often
  names.push(...names.filter((name) => name.startsWith('Redis')));
  const drawn: string[] = [];
  for (let i = 0; i < 3; i++) {
    await sleep(50 + random(200));
    const name = names[random(names.length)]!;
    drawn.push(name);
    // the server may be starting
    await DISTURBANCES[name]!(system, random).catch((error) => {
      if (!isUnavailable(error)) throw error;
    });
  }
  return drawn;
}

/** Returns true for the errors of a connection to a process that was killed. */
export function isUnavailable(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return /^(57P0|CONNECT|ECONN)/.test(code ?? '') || /socket|Connection is closed/.test(message ?? '');
}
