import type { Sql } from 'postgres';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LogFollower } from '../../src/log/follower.ts';
import { LogConnection } from '../../src/log/log-connection.ts';
import type { LogPlace } from '../../src/log/row.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { readLogState, untilSequenced } from '../support/log-state.ts';
import { postgresClient } from '../support/postgres-client.ts';

let database: FreshDatabase;
let sql: Sql;
let followers: LogFollower[];

beforeEach(async () => {
  database = await freshDatabase();
  ({ sql } = database);
  followers = [];
});
afterEach(async () => {
  await Promise.all(followers.map((follower) => follower.stop()));
  await database.drop();
});

/** What an instance has heard of the log. */
interface Heard {
  histories: string[];
  ids: string[];
  floors: number[];
  isCurrent: boolean;
}

/** Follows a database as an instance does. */
async function follow({ url }: FreshDatabase): Promise<Heard> {
  const heard: Heard = { histories: [], ids: [], floors: [], isCurrent: false };
  const follower = new LogFollower({
    open: () => openDatabase(url, 1, { kind: 'follow', pooled: false }),
    onHistory: ({ history }) => {
      heard.histories.push(history);
      heard.isCurrent = false;
    },
    onRestart: () => {},
    onNews: ({ rows, asOfMs }) => {
      heard.ids.push(...rows.flatMap(({ ids }) => ids));
      heard.isCurrent = asOfMs !== undefined;
    },
    onLearned: (_, floor) => heard.floors.push(floor),
    onSequenced: () => {},
    onReachable: () => {},
    maxAgeMs: 3_600_000,
    metrics: new Metrics(),
    events: { historyChanged: () => {}, logFollowed: () => {}, logNotFollowed: () => {} } as never,
  });
  followers.push(follower);
  await follower.start();
  await expect.poll(() => heard.isCurrent).toBe(true);
  return heard;
}

const historyOf = async (of = sql) => (await readLogState(of)).history;
const change = (id: string) =>
  sql`insert into hotels (id, name) values (${id}, 'v1') on conflict (id) do update set name = 'again'`;
/** Edits the last row of the log, which is still that of its last transaction. */
const edit = (position: number, values: string) =>
  sql.unsafe(`update hotel_api_log set transaction = pg_current_xact_id()::text::bigint, ${values}
    where position = ${position}`);
const sequence = () => sql`select hotel_api_sequence()`;

describe('a place in the log', () => {
  /** Places by name; the log has a row of a change at `present`, and another one behind it. */
  async function places(): Promise<Record<string, LogPlace>> {
    await sequence();
    await change('deleted');
    await sequence();
    const rowOf = async (id: string) => {
      const [row] = await sql<{ position: string; transaction: string }[]>`
        select position, transaction from hotel_api_log where ${id} = any(ids) order by position desc limit 1`;
      return { position: Number(row!.position), transaction: row!.transaction };
    };
    const deleted = await rowOf('deleted');
    await sql`insert into hotels (id, name) select 'many' || i, 'v1' from generate_series(1, 10) as i`;
    await change('present');
    await sequence();
    const present = await rowOf('present');
    await change('later');
    await sequence();
    const { last } = await readLogState(sql);
    const [end] = await sql`select transaction from hotel_api_log where position = ${last}`;
    // like the pruning, which keeps what is younger than ten minutes
    await sql`delete from hotel_api_log where position <= ${deleted.position}`;
    await edit(last, `state.log_from = ${deleted.position}`);
    const [now] = await sql`select transaction from hotel_api_log where position = ${last}`;
    return {
      'the end': { position: last, transaction: now!.transaction },
      'a row within': present,
      'a row that is deleted, because it is old': deleted,
      'a row that is another one now': { ...present, transaction: String(BigInt(present.transaction) + 1n) },
      'the end, which is another one now': { position: last, transaction: end!.transaction },
      'between two rows': { ...present, position: present.position - 1 },
      'behind the end': { position: last + 1, transaction: end!.transaction },
    };
  }

  it.each([
    ['the end', true],
    ['a row within', true],
    ['a row that is deleted, because it is old', 'forgotten'],
    ['a row that is another one now', false],
    ['the end, which is another one now', false],
    ['between two rows', false],
    ['behind the end', false],
  ])('%s is continued: %s', async (name, expected) => {
    const place = (await places())[name]!;
    const log = new LogConnection(postgresClient(database.ownerUrl));
    const { isContinued, history } = await log.poll(place);
    expect(isContinued).toBe(expected);
    // an instance that is somewhere else begins no history
    await log.beginHistory('another', place);
    expect(await historyOf()).toBe(history);
    await log.beginHistory(history, place);
    const begun = await historyOf();
    expect(begun === history).toBe(expected !== false);
    // a second instance in the same place finds that it is done
    await log.beginHistory(history, place);
    expect(await historyOf()).toBe(begun);
    await log.end(1);
  });
});

it('a copy of a database begins a history of its own, and shares no secret', async () => {
  const copy = await freshDatabase();
  expect(await historyOf()).toBe(await historyOf(copy.sql));
  const [one, other] = [await follow(database), await follow(copy)];
  expect(one.histories).toEqual([await historyOf()]);
  expect(other.histories).toEqual([await historyOf(copy.sql)]);
  expect(one.histories).not.toEqual(other.histories);
  const secrets = await Promise.all(
    [sql, copy.sql].map((of) => of`select encode(secret, 'hex') as secret from hotel_api_secrets`),
  );
  expect(secrets[0]![0]!.secret).not.toBe(secrets[1]![0]!.secret);
});

describe('an instance follows another history', () => {
  let heard: Heard;
  beforeEach(async () => {
    heard = await follow(database);
    await change('a');
    await expect.poll(() => heard.ids).toEqual(['a']);
  });

  /** The instance is in another history, and follows it. */
  async function expectAnother(histories = 2): Promise<void> {
    await expect.poll(() => heard.histories.length, { timeout: 20_000 }).toBe(histories);
    expect(new Set(heard.histories).size).toBe(histories);
    await untilSequenced(sql);
    await expect.poll(() => heard.isCurrent).toBe(true);
    await change('b');
    await expect.poll(() => heard.ids.at(-1)).toBe('b');
    expect(heard.histories.at(-1)).toBe(await historyOf());
  }

  it('when the tables of a dump replace those of the database', async () => {
    await sql.begin(async (transaction) => {
      await transaction`lock table hotel_api_sequencer in exclusive mode`;
      await transaction`create table saved as table hotel_api_log`;
      await transaction`truncate hotel_api_log`;
      await transaction`insert into hotel_api_log table saved`;
    });
    await expectAnother();
  });

  it('when the log lacks its last changes', async () => {
    const { last } = await readLogState(sql);
    await change('lost');
    await expect.poll(() => heard.ids).toEqual(['a', 'lost']);
    await sql`delete from hotel_api_log where position > ${last}`;
    await expectAnother();
  });

  it.each([
    ['without the state of its last row', `delete from hotel_api_log where kind = 'drained'`],
    ['empty', 'truncate hotel_api_log'],
  ])('when the log is %s', async (_, lose) => {
    await sql.unsafe(lose);
    await expectAnother();
  });

  it('when log and secret are lost, and an instance that starts finds it too', async () => {
    await sql.unsafe('truncate hotel_api_log, hotel_api_secrets');
    const started = await follow(database);
    await expectAnother();
    expect(started.histories.at(-1)).toBe(heard.histories.at(-1));
  });

  it('when only the secret is lost, and an instance that starts needs it', async () => {
    await sql.unsafe('truncate hotel_api_secrets');
    const started = await follow(database);
    await expectAnother();
    expect(started.histories.at(-1)).toBe(heard.histories.at(-1));
  });
});

describe('an instance that starts', () => {
  it('uses no label from before a change of anything, although its row is deleted', async () => {
    await sequence();
    await change('a');
    await sql`select hotel_api_invalidate()`;
    await sequence();
    const { last: invalidated } = await readLogState(sql);
    // so many ids are changed behind it that the log is pruned up to it, ten minutes later
    await sql`update hotel_api_log set at = at - interval '1 hour' where position < ${invalidated}`;
    await edit(invalidated, `at = at - interval '1 hour'`);
    await change('b');
    await sequence();
    await edit((await readLogState(sql)).last, 'state.ids = (state).ids + 2000000');
    await change('c');
    await sequence();
    const { count } = await sql`select from hotel_api_log where kind like 'all_%'`;
    expect(count).toBe(0);
    const heard = await follow(database);
    await expect.poll(() => heard.floors.length).toBeGreaterThan(0);
    expect(Math.min(...heard.floors)).toBeGreaterThanOrEqual(invalidated - 1);
  });

  it('learns all changes since the history began', async () => {
    await sequence();
    const { last: begun } = await readLogState(sql);
    for (let i = 0; i < 50; i++) {
      await change(`h${i}`);
      await sequence();
    }
    const heard = await follow(database);
    // up to the last row of the beginning of the history, which is a change of anything
    await expect.poll(() => heard.floors.at(-1)).toBe(begun - 1);
  });
});

it.each(['off', 'local', 'on'])(
  'positions are durable, whatever synchronous_commit says: %s',
  async (setting) => {
    await sequence();
    await change('a');
    const settings = await sql.begin(async (transaction) => {
      await transaction`select set_config('synchronous_commit', ${setting}, true)`;
      await transaction`select hotel_api_sequence()`;
      return transaction`select current_setting('synchronous_commit') as used`;
    });
    expect(settings[0]!.used).toBe(setting === 'off' ? 'on' : setting);
  },
);
