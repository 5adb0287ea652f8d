import type { Sql } from 'postgres';
import { beforeAll, expect, it } from 'vitest';
import { migrate } from '../../src/postgres/migrate.ts';
import { read } from '../documents/files.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { untilSequenced } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres, ownRedis, redisAt } from '../support/own-server.ts';
import { addressOf, postgresClient } from '../support/postgres-client.ts';
import { serverPrograms } from '../support/programs.ts';
import { insertHotels } from '../support/rows.ts';
import { startService } from '../support/service.ts';
import { Operator } from './operator.ts';

/** Their constraints call functions. */
const CHECKED = { website_url: 'https://a.example', images: [{ url: 'https://a.example/1.jpg' }] };
const HOTELS = Array.from({ length: 200 }, (_, i) => ({
  ...{ id: `h${i}`, channel_id: `C${i}`, ...CHECKED },
}));

const BESIDE = [
  'createdb --maintenance-db="$MAINTENANCE_URL" --owner="$OWNER" hotels_restored',
  'pg_restore --exit-on-error --single-transaction --dbname="$RESTORED_URL" hotels.dump',
  `psql "$MAINTENANCE_URL" -qv ON_ERROR_STOP=1 <<'SQL'
alter database hotels allow_connections false;
select pg_terminate_backend(pid) from pg_stat_activity where datname = 'hotels' and usename is not null;
alter database hotels rename to hotels_broken;
alter database hotels_restored rename to hotels;
SQL`,
];
const IN_PLACE = [
  'pg_restore --exit-on-error --clean --if-exists --single-transaction --dbname="$OWNER_URL" hotels.dump',
];
const runbook = read('docs/operations/runbook.md').replaceAll(/^ {3}/gm, '');
const programs = await serverPrograms();
await needs('bash', 'psql', 'pg_dump', 'redis-server');

it('the runbook prints the lines that are typed here', () => {
  for (const lines of BESIDE) expect(runbook).toContain(lines);
});

let sql: Sql;
let allWorkers: AllWorkers;
let operator: Operator;

beforeAll(async () => {
  const server = await ownPostgres(100, programs);
  const superuser = postgresClient(server.ownerUrl);
  // the rights that the runbook demands
  await superuser`create role owner login password 'of-owner' createdb createrole in role pg_signal_backend`;
  await superuser`create database hotels owner owner`;
  // an owner's login needs it if another database has the role
  await superuser`grant hotel_api_serve to owner with admin option`;
  const ofOwner = { username: 'owner', password: 'of-owner' };
  const ownerUrl = addressOf(server.ownerUrl, { ...ofOwner, database: 'hotels' });
  sql = postgresClient(ownerUrl, { backoff: () => 0.1 });
  await migrate(sql);
  await insertHotels(sql, HOTELS);
  const around = {
    database: databaseAt(addressOf(server.url, { database: 'hotels' }), ownerUrl, sql),
    redisDatabase: redisAt((await ownRedis()).url),
  };
  // the default: a query that waits for longer may find its table replaced
  const env = { DATABASE_TIMEOUT_MS: '500' };
  const service = await startService({ ...around, workers: 2, env });
  // a service without local cache reads every hotel from Redis
  const bare = await startService({ ...around, env: { ...env, L1_MAX_BYTES: '0' } });
  allWorkers = await AllWorkers.of(service, bare);
  operator = await Operator.set({
    MAINTENANCE_URL: addressOf(server.ownerUrl, { ...ofOwner, database: 'postgres' }),
    OWNER: ofOwner.username,
    OWNER_URL: ownerUrl,
    RESTORED_URL: addressOf(server.ownerUrl, { ...ofOwner, database: 'hotels_restored' }),
  });
});

it.each([
  ['in its place', IN_PLACE],
  ['beside the present database and put in its place', BESIDE],
])(
  'PostgreSQL is restored %s under running instances: they serve its content, and later changes within 1 s',
  async (_, restoring) => {
    await sql`update hotels set name = 'dumped'`;
    await operator.types('pg_dump --format=custom --file=hotels.dump "$OWNER_URL"');

    // positions after the dump are given out again
    for (let round = 0; round < 3; round++) {
      await sql`update hotels set name = ${`broken ${round}`}`;
      await untilSequenced(sql);
    }
    await sql`delete from hotels where id = 'h3'`;
    await insertHotels(sql, [{ id: 'new', channel_id: 'C3' }]);
    for (const { id } of HOTELS.slice(0, 3)) await allWorkers.until(`/hotels/${id}`, named('broken 2'));
    await allWorkers.until('/hotels/channel/C3', status(200));

    const statuses = new Set<number>();
    let over = false;
    const requesting = (async () => {
      for (let i = 0; !over; i++)
        for (const response of await allWorkers.get(`/hotels/h${i % HOTELS.length}`))
          statuses.add(response.status);
    })();
    closeAtEnd('requests', async () => {
      over = true;
      await requesting;
    });
    for (const lines of restoring) await operator.types(lines);
    for (const { id } of HOTELS) await allWorkers.until(`/hotels/${id}`, named('dumped'));
    await allWorkers.until('/hotels/channel/C3', named('dumped'));
    await allWorkers.until('/hotels/new', status(404));
    over = true;
    await requesting;
    expect([...statuses].filter((one) => ![200, 404, 503].includes(one))).toEqual([]);

    await sql`update hotels set name = 'after the restore'`;
    for (const { id } of HOTELS.slice(0, 20))
      await allWorkers.until(`/hotels/${id}`, named('after the restore'));
  },
);
