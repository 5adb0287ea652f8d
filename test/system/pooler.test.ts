import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { SETTINGS } from '../../src/postgres/connect.ts';
import { makeServingLogin, OPEN_TO_ALL_LOGINS } from '../../src/postgres/logins.ts';
import { startProgram } from '../cli/program.ts';
import { AllWorkers, named } from '../support/all-workers.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import type { OwnServer } from '../support/own-server.ts';
import { startPgBouncer } from '../support/pgbouncer.ts';
import { newLogin, postgresClient, waitingForHotels } from '../support/postgres-client.ts';
import { type Service, startService } from '../support/service.ts';

await needs('pgbouncer');

const POOL_SIZE = 2;
const HOTELS = 100;
/** A pooler drops these settings instead of rejecting them. */
const IGNORING = {
  ignore_startup_parameters: [
    ...Object.keys(SETTINGS),
    ...['role', 'default_transaction_read_only', 'statement_timeout', 'idle_session_timeout', 'lock_timeout'],
    ...['tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count'],
  ].join(),
};

/** The pooler empties a session after each transaction. */
const RESETTING = { server_reset_query_always: '1' };

let database: FreshDatabase;
/** the database as its login for the service, directly */
let directUrl: string;
let login: string;
let pooler: { server: OwnServer; url: string };
let service: Service;
let allWorkers: AllWorkers;

const migrate = (url: string, ...options: string[]) =>
  startProgram(['migrate', ...options], { DATABASE_URL: url }).outcome;

/** Creates a login that the service may have behind a pooler. */
async function newServingLogin(): ReturnType<typeof newLogin> {
  const created = await newLogin(database);
  await makeServingLogin(database.sql, created.login);
  return created;
}

const FORGING = `
  create temporary table hotels as select * from public.hotels;
  update hotels set name = 'Forged';
  create temporary view pg_class as select * from pg_catalog.pg_class where relpersistence <> 't';
  create temporary view pg_database as select * from pg_catalog.pg_database where false`;

/** Leaves in every session of a pooler a forged table, and views by which a login seems to have no rights and no tables. */
async function poison(url: string, statements = FORGING): Promise<void> {
  const sql = postgresClient(url, { max: POOL_SIZE, prepare: false, fetch_types: false });
  let arrived = 0;
  const sessions = Array.from({ length: POOL_SIZE }, () =>
    sql.begin('read write', async (session) => {
      await session.unsafe(statements);
      // in all sessions at once: a transaction keeps its session until the last one has its own
      arrived++;
      while (arrived < POOL_SIZE) await session`select pg_sleep(0.01)`;
    }),
  );
  await Promise.all(sessions);
  await sql.end();
}

beforeAll(async () => {
  database = await freshDatabase();
  await database.sql.unsafe(`revoke temporary on database ${database.name} from public`);
  ({ login, url: directUrl } = await newLogin(database));
  const { stderr } = await migrate(database.ownerUrl, '--serving-login', login);
  // every login may connect to a database of the tests
  expect(stderr).toBe(`${OPEN_TO_ALL_LOGINS}\n`);
  pooler = await startPgBouncer(directUrl, POOL_SIZE, RESETTING);
  service = await startService({
    database,
    redis: false,
    workers: 2,
    hotels: Array.from({ length: HOTELS }, (_, i) => ({
      id: `h${String(i).padStart(2, '0')}`,
      channel_id: `CH-${i}`,
      registry_id: 7_000 + i,
    })),
    // every read requires PostgreSQL
    env: { L1_MAX_BYTES: '0', DATABASE_URL: pooler.url },
  });
  allWorkers = await AllWorkers.of(service);
});

describe('behind PgBouncer in transaction mode', () => {
  it('all six operations are served over the shared connections of the pooler, and a change is visible', async () => {
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all([
        ...['/h07', '/channel/CH-7', '/registry/7007', '?limit=1&offset=7'].map((path) =>
          allWorkers.get(`/hotels${path}`),
        ),
        allWorkers.post('/hotels/channel/batch', { channel_ids: ['CH-7'] }),
        allWorkers.post('/hotels/registry/batch', { registry_ids: [7_007] }),
      ]);
      for (const { text } of answers.flat())
        expect([JSON.parse(text)].flat()).toMatchObject([{ id: 'h07', channel_id: 'CH-7' }]);
    }
    const held = await database.sql`
      select from pg_stat_activity where datname = current_database() and usename = ${login}`;
    expect(held.length).toBeGreaterThan(0);
    expect(held.length).toBeLessThanOrEqual(POOL_SIZE);
    await database.sql`update hotels set name = 'Changed' where id = 'h09'`;
    await allWorkers.until('/hotels/h09', named('Changed'));
  });

  it('the login of the service cannot write', async () => {
    // like the service
    const sql = postgresClient(pooler.url, { prepare: false, fetch_types: false });
    await expect(sql`update hotels set name = 'Written'`).rejects.toThrow(/read-only/);
    // a login may change its own settings
    await expect(
      sql.unsafe(`set transaction read write; update hotels set name = 'Written'`).simple(),
    ).rejects.toThrow(/permission denied/);
  });

  it.each([
    ['rejects', {}],
    ['drops', IGNORING],
  ])('commands work through a pooler that %s settings', async (_, more) => {
    const { url } = await startPgBouncer(database.ownerUrl, 1, more);
    const run = (args: string[], input = '') => startProgram(args, { DATABASE_URL: url }, { input }).outcome;
    const hotel = { id: 'imported', name: randomBytes(8).toString('hex') };
    for (const outcome of [
      await run(['migrate']),
      await run(['keys', 'create', '--name', 'k']),
      await run(['import', '-'], `${JSON.stringify(hotel)}\n`),
    ])
      expect(outcome).toMatchObject({ code: 0 });
    const [imported] = await database.sql`select name from hotels where id = 'imported'`;
    expect(imported).toEqual({ name: hotel.name });
  });

  it('the turn of a killed import is free at once, and its connection of the pool', async () => {
    const { url } = await startPgBouncer(database.ownerUrl, 1);
    const run = (...options: string[]) =>
      startProgram(['import', '-', ...options], { DATABASE_URL: url }, { input: '{"id":"k","name":"K"}\n' });
    await database.sql.begin(async (holder) => {
      await holder`lock table hotels in row exclusive mode`;
      const { child, outcome } = run();
      const waiting = () => waitingForHotels(database.sql);
      await expect.poll(waiting).toHaveLength(1);
      child.kill('SIGKILL');
      await outcome;
      // PgBouncer disconnects the server, which looks for its client every second
      await expect.poll(waiting).toHaveLength(0);
      expect(await run('--dry-run').outcome).toMatchObject({ code: 0, stderr: '' });
    });
  });
});

it.each([
  ['temporary tables', FORGING],
  ['positions and times with fewer digits', 'set extra_float_digits = -12'],
])('%s are never used, in whatever sessions of the pooler they are left', async (_, statements) => {
  const { login, url } = await newServingLogin();
  const pool = await startPgBouncer(url, POOL_SIZE);
  const other = await startService({
    database,
    redis: false,
    env: { L1_MAX_BYTES: '0', DATABASE_URL: pool.url },
  });
  expect((await other.get('/hotels/h07')).json()).toMatchObject({
    name: expect.not.stringMatching('Forged'),
  });
  await database.sql.unsafe(`grant temporary on database ${database.name} to ${login}`);
  await poison(pool.url, statements);
  await database.sql.unsafe(`revoke temporary on database ${database.name} from ${login}`);
  for (let n = 0; n < 20; n++) expect((await other.get('/hotels/h07')).status).toBe(503);
  const asked = /has temporary tables, or settings that change results: make the pooler reconnect/;
  await expect.poll(() => other.logs().join('\n')).toMatch(asked);
  await other.stop();
  await pool.server.stop();
});

describe('behind a pooler is rejected', () => {
  /** Starts a service behind a pooler, which is not ready for this reason. */
  const startRejected = async (pool: typeof pooler, reason: RegExp) => {
    const { url, server } = pool;
    const started = await startService({
      database,
      redis: false,
      awaitReady: false,
      env: { DATABASE_URL: url },
    });
    await expect.poll(() => started.logs().join('\n')).toMatch(reason);
    expect((await started.admin('/readyz')).status).toBe(503);
    return { started, server };
  };
  const expectRejectionAt = async (pool: typeof pooler, reason: RegExp) => {
    await (await startRejected(pool, reason)).started.stop();
  };
  const expectRejection = async (address: string, reason: RegExp, more = {}) =>
    expectRejectionAt(await startPgBouncer(address, POOL_SIZE, more), reason);

  it('a login that owns the tables, because the service cannot drop its rights', () =>
    expectRejection(database.ownerUrl, /as an owner, a superuser or with CREATEROLE/));

  it('a login that may create temporary tables, until its right is revoked and the pooler has reconnected', async () => {
    const { login, url } = await newServingLogin();
    await database.sql.unsafe(`grant temporary on database ${database.name} to ${login}`);
    const cure = `revoke temporary on database ${database.name} from ${login}`;
    await expectRejection(url, new RegExp(`${cure}\\. Then make the pooler reconnect`));
    const session = postgresClient(url, { max: 1 });
    await session`set session characteristics as transaction read write`;
    await session`create temporary table hotels (id text)`;
    await database.sql.unsafe(cure);
    await expectRejection(url, /has left temporary tables/);
    await session.end();
  });

  it('a login whose sessions of the pooler have temporary views in place of catalogs', async () => {
    const { login, url } = await newServingLogin();
    await database.sql.unsafe(`grant temporary on database ${database.name} to ${login}`);
    const pool = await startPgBouncer(url, POOL_SIZE);
    await poison(pool.url);
    await expectRejectionAt(pool, /revoke temporary on database/);
    await database.sql.unsafe(`revoke temporary on database ${database.name} from ${login}`);
    await expectRejectionAt(pool, /has left temporary tables/);
    await pool.server.stop();
  });

  it.each([
    ['rejects', {}],
    ['drops', IGNORING],
  ])(
    'a setting that changes results, because the service cannot change it: a pooler that %s settings',
    async (_, more) => {
      const other = await newLogin(database);
      await migrate(database.ownerUrl, '--serving-login', other.login);
      await database.sql.unsafe(`alter role ${other.login} set bytea_output = 'escape'`);
      await expectRejection(
        other.url,
        new RegExp(`lacks bytea_output\\. Run: alter role ${other.login} set bytea_output = 'hex'\\.`),
        more,
      );
    },
  );

  it('a login without any of the settings, which one command then makes', async () => {
    const other = await newLogin(database);
    await database.sql.unsafe(`grant hotel_api_serve to ${other.login}`);
    const cure = `hotel-api migrate --serving-login ${other.login}`;
    const { started, server } = await startRejected(
      await startPgBouncer(other.url, POOL_SIZE),
      new RegExp(cure),
    );
    await migrate(database.ownerUrl, '--serving-login', other.login);
    // the pooler reconnects
    await server.kill();
    await server.restart();
    await started.ready();
    expect((await started.get('/hotels/h07')).status).toBe(200);
    await started.stop();
    // the use of keys is written through the pooler too
    expect(linesOf(started.logs(), 'use of keys not recorded')).toEqual([]);
    const used = await database.sql`
      select sum(requests)::integer as requests from hotel_api_usage join api_keys on key_id = id
      where key_sha256 = ${Buffer.from(hashOf(started.fullKey), 'hex')}`;
    expect(used).toEqual([{ requests: 1 }]);
  });
});

it.each([
  ['insert on hotels to LOGIN', 'revoke insert on table public.hotels from LOGIN'],
  ['update (name) on hotels to public', 'revoke update (name) on table public.hotels from public'],
  ['delete on hotel_api_secrets to LOGIN', 'revoke delete on table public.hotel_api_secrets from LOGIN'],
  ['temporary on database DATABASE to public', 'revoke temporary on database DATABASE from public'],
  [
    'temporary on database DATABASE to hotel_api_serve',
    'revoke temporary on database DATABASE from hotel_api_serve',
  ],
  ['create on database DATABASE to LOGIN', 'revoke create on database DATABASE from LOGIN'],
  ['create on schema public to public', 'revoke create on schema public from public'],
  ['GROUP to LOGIN', 'revoke GROUP from LOGIN'],
  ['GROUP to hotel_api_serve', 'revoke GROUP from hotel_api_serve'],
  ['insert on schema_migrations to LOGIN', 'revoke insert on table public.schema_migrations from LOGIN'],
  ['pg_write_all_data to LOGIN', 'revoke pg_write_all_data from LOGIN'],
])(
  'migrate --serving-login rejects a login after a grant of %s, with the statement that helps',
  async (grant, cure) => {
    const { login } = await newLogin(database);
    const group = await newLogin(database);
    const named = (text: string) =>
      text.replace('DATABASE', database.name).replace('LOGIN', login).replace('GROUP', group.login);
    const { sql } = database;
    await sql.unsafe(`grant trigger on collections to ${group.login}; grant ${named(grant)}`).simple();
    const message = expect.stringContaining(`: ${named(cure)}. Then make`);
    await expect(makeServingLogin(sql, login)).rejects.toMatchObject({ message });
    const [row] = await sql`select rolconfig from pg_roles where rolname = ${login}`;
    expect(row!.rolconfig).toBeNull();
    await sql.unsafe(`revoke trigger on collections from ${group.login}; ${named(cure)}`).simple();
    await makeServingLogin(sql, login);
  },
);
