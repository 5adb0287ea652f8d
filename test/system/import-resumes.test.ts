import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { hotelAt } from '../../src/cli/seed/hotel.ts';
import { counts, type Outcome, Program } from '../cli/program.ts';

/** About 9 MB: three batches. */
const HOTELS = 9_000;
const WRONG = 3;
const BLOCKED_LINE = 6_500;
const LOCK = 4711;

let program: Program;

beforeAll(async () => {
  program = await Program.set();
  const lines = Array.from({ length: HOTELS }, (_, i) => `${JSON.stringify(hotelAt(i, 1, '2026-06-01'))}\n`);
  lines[WRONG - 1] = '{"id":"wrong"}\n';
  await writeFile(join(program.folder, 'hotels.ndjson'), lines.join(''));
  // Every table for staged lines records each line, and waits for a lock at one of them.
  await program.database.sql.unsafe(`
    create table noted (line bigint);
    create function note_line() returns trigger language plpgsql as $$
    begin
      if new.line = ${BLOCKED_LINE} then perform pg_advisory_xact_lock(${LOCK}); end if;
      insert into noted values (new.line);
      return null;
    end $$;
    create function watch_staging() returns event_trigger language plpgsql as $$
    declare made record;
    begin
      for made in select * from pg_event_trigger_ddl_commands() where object_identity ~ 'hotel_api_import_[0-9a-f]+$' loop
        execute format('create trigger noted after insert on %s for each row execute function note_line()', made.objid::regclass);
      end loop;
    end $$;
    create event trigger watch_staging on ddl_command_end when tag in ('CREATE TABLE AS') execute function watch_staging()`);
});

beforeEach(async () => {
  for (const { name } of await tables()) await program.database.sql.unsafe(`drop table ${name}`);
  await program.database.sql`truncate hotels, noted`;
});

const sql = () => program.database.sql;
const staged = async () => (await sql()`select count(*)::int as count from noted`)[0]!.count;
const tables = () =>
  sql()<{ name: string }[]>`
    select relname as name from pg_class where relname like 'hotel\\_api\\_import\\_%' and relkind = 'r'`;
const waiting = () => sql()<{ pid: number }[]>`
  select pid from pg_stat_activity
  where datname = current_database() and application_name = 'hotel-api operate' and wait_event_type = 'Lock'`;

/** Runs an import until it waits for this test's lock, and interrupts it there. */
async function interruptWhere(
  hold: 'reading' | 'merging',
  interrupt: (child: ReturnType<Program['start']>['child'], backend: number) => unknown,
  args: string[] = [],
): Promise<Outcome> {
  return sql().begin(async (holder) => {
    if (hold === 'reading') await holder`select pg_advisory_xact_lock(${LOCK})`;
    else await holder`lock table hotels in row exclusive mode`;
    const { child, outcome } = program.start(['import', 'hotels.ndjson', ...args]);
    const backend = await vi.waitUntil(async () => (await waiting())[0]?.pid, { timeout: 60_000 });
    await interrupt(child, backend);
    const ended = await outcome;
    // the server may notice later than this process
    await sql()`select pg_terminate_backend(${backend})`;
    await expect.poll(waiting).toHaveLength(0);
    return ended;
  }) as Promise<Outcome>;
}

async function goesOn(stagedBefore: number): Promise<void> {
  const { stderr, stdout, code } = await program.run(['import', 'hotels.ndjson']);
  expect(stderr).toContain(`resuming after line ${stagedBefore} of an interrupted import`);
  // printed again, because only one of the two runs may be watched
  expect(stderr).toContain(`line ${WRONG}: name is missing\n`);
  expect({ code, stdout }).toEqual({
    code: 1,
    stdout: expect.stringContaining(`${HOTELS - 1} inserted, 0 updated, 0 unchanged, 0 deleted, 1 rejected`),
  });
  // each line was staged once, by one of the two processes
  const [lines] = await sql()`select count(*)::int as count, count(distinct line)::int as lines from noted`;
  expect(lines).toEqual({ count: HOTELS, lines: HOTELS });
  expect(await tables()).toHaveLength(0);
  const [hotels] = await sql()`select count(*)::int as count from hotels`;
  expect(hotels!.count).toBe(HOTELS - 1);
}

const kill = (child: ReturnType<Program['start']>['child']) => {
  child.kill('SIGKILL');
  return once(child, 'close');
};

test('an import killed while it reads is resumed, and none of it was visible before', async () => {
  const { signal } = await interruptWhere('reading', kill);
  expect(signal).toBe('SIGKILL');
  const before = await staged();
  expect(before).toBeGreaterThan(1_000);
  expect(before).toBeLessThan(BLOCKED_LINE);
  expect(await sql()`select 1 from hotels limit 1`).toHaveLength(0);
  await goesOn(before);
});

test('an import killed while it merges reads no line again', async () => {
  await interruptWhere('merging', kill);
  expect(await sql()`select 1 from hotels limit 1`).toHaveLength(0);
  expect(await staged()).toBe(HOTELS);
  await goesOn(HOTELS);
});

test('Ctrl-C ends an import cleanly, and it is resumed', async () => {
  const { code, signal, stdout, stderr } = await interruptWhere('reading', (child) => child.kill('SIGINT'));
  expect({ code, signal, stdout }).toEqual({ code: 1, signal: null, stdout: '' });
  expect(stderr).toContain('The lines read so far are kept: run the same command again to resume.\n');
  expect(stderr).toMatch(/hotel-api: Interrupted.*\n/);
  await goesOn(await staged());
});

test('a connection lost while it reads loses no staged line', async () => {
  const { code, stderr } = await interruptWhere(
    'reading',
    (_, backend) => sql()`select pg_terminate_backend(${backend})`,
  );
  expect(code).toBe(1);
  expect(stderr).toContain('The lines read so far are kept: run the same command again');
  await goesOn(await staged());
});

test('different content is a different import, and an interrupted import expires after a week', async () => {
  await interruptWhere('merging', kill);
  expect(await tables()).toHaveLength(1);
  const other = '{"id":"a","name":"A"}\n';
  expect(await program.json(['import', '-'], other)).toEqual(counts({ inserted: 1 }));
  expect(await tables()).toHaveLength(1);
  const [{ name } = { name: '' }] = await tables();
  await sql().unsafe(`comment on table ${name} is 'import, 2026-01-01T00:00:00.000Z'`);
  expect(await program.json(['import', '-'], other)).toEqual(counts({ unchanged: 1 }));
  expect(await tables()).toHaveLength(0);
});

test('an interrupted dry run changes nothing, and an import uses its staged lines', async () => {
  const { signal } = await interruptWhere('reading', kill, ['--dry-run']);
  expect(signal).toBe('SIGKILL');
  await goesOn(await staged());
});

test('of two concurrent imports of the same file, the second waits and changes nothing', async () => {
  const outcomes = await Promise.all([1, 2].map(() => program.run(['import', 'hotels.ndjson'])));
  const printed = outcomes.map(({ stdout }) => stdout.split('\n')[0]);
  expect(printed.sort()).toEqual([
    `0 inserted, 0 updated, ${HOTELS - 1} unchanged, 0 deleted, 1 rejected`,
    `${HOTELS - 1} inserted, 0 updated, 0 unchanged, 0 deleted, 1 rejected`,
  ]);
  expect(outcomes.some(({ stderr }) => stderr.startsWith('waiting: another import is running ('))).toBe(true);
  expect(await tables()).toHaveLength(0);
});

test('a server error after all lines are sent ends the import', async () => {
  // a trigger at the end of the copy, when all rows are sent
  await sql().unsafe(`
    create or replace function note_line() returns trigger language plpgsql as $$
    begin raise disk_full using message = 'no room'; end $$`);
  expect(await program.run(['import', '-'], '{"id":"a","name":"A"}\n')).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^hotel-api: PostgreSQL rejected the statement \(53100\): no room\. Nothing was changed\.\n$/,
    ),
  });
});
