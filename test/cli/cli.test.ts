import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { describe, expect, test } from 'vitest';
import { hashOf, isWellFormed } from '../../src/auth/key.ts';
import { readConfig } from '../../src/config/config.ts';
import { requireSchema } from '../../src/postgres/migrate.ts';
import { listen } from '../support/cleanup.ts';
import { Program } from './program.ts';

const program = await Program.set();
const { database } = program;
const { sql } = database;

const hotelApi = (args: string[], env?: NodeJS.ProcessEnv) => program.run(args, '', env);
const here = (args: string[]) => program.here(args);
const json = (args: string[]) => program.jsonHere(args);

describe('usage', () => {
  test('hotel-api alone exits with 2 and its help', async () => {
    expect(await hotelApi([])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Usage: hotel-api'),
    });
  });

  test('an unavailable server is reported in one line with its address, without the password', async () => {
    const env = { DATABASE_URL: 'postgres://user:s3cret@127.0.0.1:1/hotels' };
    const { code, stderr } = await hotelApi(['keys', 'list'], env);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^hotel-api: .*127\.0\.0\.1:1.*\n$/)]);
    expect(stderr).not.toContain('s3cret');
  });

  test('config --json prints every effective setting, and no secret', async () => {
    const env = {
      DATABASE_URL: 'postgres://user:s3cret@db:5432/hotels',
      REDIS_URL: 'rediss://user:s3cret@cache:6379/0',
      WORKERS: '3',
    };
    const { code, stdout, stderr } = await hotelApi(['config', '--json'], env);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).not.toContain('s3cret');
    const shown = JSON.parse(stdout);
    expect(Object.keys(shown)).toEqual(Object.keys(readConfig(env)));
    expect(shown).toMatchObject({ WORKERS: 3, PORT: 8080, DATABASE_URL: 'postgres://***@db:5432/hotels' });
  });
});

test('health requests the admin port, and requires only the port', async () => {
  let status = 200;
  const server = createServer((_, response) => response.writeHead(status).end('draining'));
  const env = { ADMIN_PORT: String(await listen(server)) };
  const { code, stdout } = await hotelApi(['health', '--json'], env);
  const url = `http://127.0.0.1:${env.ADMIN_PORT}/readyz`;
  expect([code, JSON.parse(stdout)]).toEqual([0, { url, status: 200 }]);
  status = 503;
  expect(await hotelApi(['health'], env)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('503 draining'),
  });
  server.close();
  await once(server, 'close');
  expect((await hotelApi(['health'], env)).code).toBe(1);
});

describe('migrate', () => {
  test('run four times at once on an empty database applies every file once', async () => {
    const name = `${database.name}_empty`;
    await sql.unsafe(`create database ${name}`);
    try {
      const env = { DATABASE_URL: database.ownerUrl.replace(database.name, name) };
      const outcomes = await Promise.all(
        Array.from({ length: 4 }, () => hotelApi(['migrate', '--json'], env)),
      );
      expect(outcomes.filter(({ code }) => code !== 0)).toEqual([]);
      const applied = outcomes.flatMap(({ stdout }) => JSON.parse(stdout).applied);
      expect(applied.toSorted()).toEqual([...new Set(applied)].toSorted());
      const files = (await readdir(new URL('../../sql', import.meta.url))).sort();
      expect(applied.toSorted()).toEqual(files);
    } finally {
      await sql.unsafe(`drop database ${name} with (force)`);
    }
  });

  test('rejects a database that is newer than the code, as the service does', async () => {
    await requireSchema(sql);
    await sql`insert into schema_migrations values (999, '999-tomorrow.sql', '')`;
    await expect(requireSchema(sql)).rejects.toThrow(/version 999.*newer/);
    await expect(here(['migrate'])).rejects.toThrow(/version 999, .* does not work with 999-tomorrow/);
    await sql`delete from schema_migrations where version = 999`;
  });

  test('rejects a file that was changed after it was applied', async () => {
    await sql`update schema_migrations set sha256 = 'x' || sha256 where version = 2`;
    await expect(here(['migrate'])).rejects.toThrow('002-api-keys.sql was changed');
    await sql`update schema_migrations set sha256 = substr(sha256, 2) where version = 2`;
    expect((await here(['migrate'])).code).toBe(0);
  });

  test.each([
    [
      'roles that may create triggers',
      `create role "the writer"; grant all on hotels to "the writer"`,
      /Warning: "the writer" may create triggers[\s\S]*revoke trigger on hotels, api_keys/,
      'drop owned by "the writer"; drop role "the writer"',
    ],
    [
      'schemas in which every login may create tables',
      'create schema "of all"; grant create on schema "of all" to public',
      /revoke create on schema "of all" from public\n/,
      'drop schema "of all"',
    ],
    [
      'schemas with tables that could be served in place of those of the service',
      'create schema "of another"; grant usage on schema "of another" to public; ' +
        'create table "of another".hotels (id text); grant select (id) on "of another".hotels to hotel_api_serve',
      /^Warning: hotel_api_serve may read tables of the same names in "of another"\. .* in another database\.\n$/,
      'drop schema "of another" cascade',
    ],
    [
      'a database to which every login may connect',
      'grant connect on database DATABASE to public',
      /^Warning: CONNECT .* PUBLIC/,
      'revoke connect on database DATABASE from public',
    ],
  ])('warns of %s', async (_, open, warning, close) => {
    const warned = async (statements: string) => {
      await sql.unsafe(statements.replace('DATABASE', database.name)).simple();
      const { code, stdout, stderr } = await here(['migrate', '--json']);
      expect([code, Object.keys(JSON.parse(stdout))]).toEqual([0, ['applied', 'version']]);
      return stderr;
    };
    await warned('revoke connect on database DATABASE from public');
    expect(await warned(open)).toMatch(warning);
    expect(await warned(close)).toBe('');
  });
});

describe('keys', () => {
  const listed = async (): Promise<{ id: string; state: string; rate_limit: string | null }[]> =>
    JSON.parse((await here(['keys', 'list', '--json'])).stdout);
  const states = async () => (await listed()).map(({ id, state }) => [id, state]);

  test('have a rate limit, which is created, listed, changed, kept by a rotation, and removed', async () => {
    const { id, ...made } = await json(['keys', 'create', '--name', 'trial', '--rate-limit', '200/s']);
    expect(made).toMatchObject({ code: 0, rate_limit: '200/s' });
    expect((await here(['keys', 'list'])).stdout).toMatch(new RegExp(`${id} +trial +- +200/s `));
    const changed = { code: 0, id, name: 'trial', rate_limit: '6000/m' };
    expect(await json(['keys', 'limit', id, '6000/m'])).toEqual(changed);
    const next = await json(['keys', 'rotate', id]);
    expect(next.rate_limit).toBe('6000/m');
    expect(await json(['keys', 'limit', next.id, 'none'])).toMatchObject({ rate_limit: null });
    expect((await listed()).map(({ rate_limit }) => rate_limit)).toEqual(['6000/m', null]);
    await sql`truncate api_keys`;
  });

  test('are created, listed without their secret, rotated with a grace time, and revoked', async () => {
    const options = ['--scope', 'registry', '--expires', '2999-01-31'];
    const made = await json(['keys', 'create', '--name', 'Acme "1"', ...options]);
    expect(made).toEqual({
      code: 0,
      id: expect.stringMatching(/^key_[\w-]{12}$/),
      name: 'Acme "1"',
      key: expect.any(String),
      scopes: ['registry'],
      expires_at: '2999-01-31T00:00:00.000Z',
    });
    expect(isWellFormed(made.key)).toBe(true);
    const [stored] = await sql`select encode(key_sha256, 'hex') as hash from api_keys where id = ${made.id}`;
    expect(stored!.hash).toBe(hashOf(made.key));
    for (const format of [[], ['--json']]) {
      const { stdout } = await here(['keys', 'list', ...format]);
      expect(stdout).toContain(made.id);
      expect(stdout).not.toContain(made.key);
      expect(stdout).not.toContain(stored!.hash);
    }

    const next = await json(['keys', 'rotate', made.id, '--grace', '2h']);
    expect(next).toMatchObject({ name: made.name, scopes: made.scopes, expires_at: made.expires_at });
    expect(next.key).not.toBe(made.key);
    const [old] = await sql`
      select rotated_to, expires_at between now() + interval '119 minutes' and now() + interval '2 hours' as in_grace
      from api_keys where id = ${made.id}`;
    expect(old).toEqual({ rotated_to: next.id, in_grace: true });
    expect(await states()).toEqual([
      [made.id, 'rotated'],
      [next.id, 'active'],
    ]);
    await expect(here(['keys', 'rotate', made.id])).rejects.toThrow(next.id);

    const revoked = await json(['keys', 'revoke', next.id]);
    expect(await json(['keys', 'revoke', next.id])).toEqual(revoked);
    await expect(here(['keys', 'rotate', next.id])).rejects.toThrow('is revoked');
    await sql`update api_keys set expires_at = now() where id = ${made.id}`;
    expect(await states()).toEqual([
      [made.id, 'expired'],
      [next.id, 'revoked'],
    ]);
  });

  test('say who created and revoked them, why, and when they were last used', async () => {
    await sql`truncate api_keys`;
    const made = await json(['keys', 'create', '--name', 'trial', '--note', 'ticket 4711']);
    const next = await json(['keys', 'rotate', made.id, '--note', 'yearly']);
    await json(['keys', 'revoke', made.id, '--note', 'found in a repository']);
    const login = new URL(database.ownerUrl).username;
    await sql`insert into hotel_api_usage values
      (current_date, ${next.id}, 3, 30, 300, '2026-01-02T03:04:05Z'), (current_date - 1, ${next.id}, 1, 10, 100, '2026-01-01Z'),
      (current_date - 8, ${next.id}, 1, 1, 1, '2025-12-24Z'), (current_date, 'key_gone', 2, 2, 2, now())`;
    const revoked = { created_by: login, created_note: 'ticket 4711', revoked_by: login };
    expect(await listed()).toMatchObject([
      { id: made.id, ...revoked, revoked_note: 'found in a repository', last_used_at: null },
      { id: next.id, created_note: 'yearly', revoked_by: null, last_used_at: '2026-01-02T03:04:05.000Z' },
    ]);
    expect((await here(['keys', 'list'])).stdout).toMatch(/2026-01-02T03:04:05.000Z +active +-$/m);
    const usage = async (...args: string[]) =>
      JSON.parse((await here(['keys', 'usage', ...args, '--json'])).stdout);
    expect(await usage(next.id, '--days', '2')).toMatchObject([
      { id: next.id, name: 'trial', requests: 3, hotels: 30, bytes: 300 },
      { id: next.id, name: 'trial', requests: 1, hotels: 10, bytes: 100 },
    ]);
    expect(await usage()).toHaveLength(4);
    expect(await usage(made.id)).toEqual([]);
    expect((await here(['keys', 'usage', '--days', '1'])).stdout).toMatch(/^\S+ +key_gone +- +2 +2 +2$/m);
    await sql`truncate hotel_api_usage`;
  });

  test('a grace time never extends the life of a key', async () => {
    const [at] = await sql`select date_trunc('second', now()) + interval '10 minutes' as soon`;
    const soon = at!.soon.toISOString();
    const { id } = await json(['keys', 'create', '--name', 'short', '--expires', soon]);
    await here(['keys', 'rotate', id, '--grace', '30d']);
    const [row] = await sql`select expires_at from api_keys where id = ${id}`;
    expect(row!.expires_at.toISOString()).toBe(soon);
  });
});

test('a table with hotels is not seeded', async () => {
  const args = ['seed', '--hotels', '2000'];
  expect(await json(args)).toMatchObject({ code: 0, inserted: 2000, seed: 1 });
  await expect(here(args)).rejects.toThrow('not empty');
});
