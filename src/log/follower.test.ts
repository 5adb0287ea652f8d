import fc from 'fast-check';
import type { Sql } from 'postgres';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { monotonicMs } from '../lib/clock.ts';
import { Metrics } from '../observability/metrics.ts';
import { LogFollower, type News } from './follower.ts';
import { type LogCursor, type LogRow, MAX_LOG_ROWS } from './log-connection.ts';

const MAX_AGE_MS = 60_000;

/** Row of the log, as PostgreSQL returns it. */
interface Row extends LogCursor {
  kind: string;
  ids: string[] | null;
  ageMs: number;
}

/** A log in memory, behind connections that answer like PostgreSQL, late or not at all. */
class FakeDatabase {
  history = 'first';
  server = 'start 1';
  /** rows that caches need; others have the positions between */
  rows: Row[] = [];
  last: LogCursor = { position: 0, transaction: '1' };
  /** committed, without a position */
  queued: string[][] = [];
  isUnread = false;
  isDue = false;
  isContinued: boolean | null = true;
  deletedTo = 0;
  /** ids of a large change that the sequencer lists behind it, a piece in each call */
  pieces = 0;
  /** every message, and what it asked for */
  readonly calls: string[] = [];
  opened = 0;
  readonly connections = new Set<unknown>();
  /** waits before each answer */
  befall: (call: string) => Promise<unknown> | undefined = () => undefined;

  readonly open = (): Sql => {
    this.opened++;
    const closed = Promise.withResolvers<never>();
    this.connections.add(closed);
    closed.promise.catch(() => {});
    const run = async (text: string, parameters: unknown[] = []) => {
      if (text === 'select') return [];
      const [call, answer] = this.#messageOf(text, parameters);
      this.calls.push(call);
      await Promise.race([this.befall(call), closed.promise]);
      return answer();
    };
    const unsafe = (text: string, parameters?: unknown[]) =>
      parameters ? run(text, parameters) : { simple: () => run(text) };
    const end = async () => {
      this.connections.delete(closed);
      closed.reject(new Error('the connection has ended'));
    };
    return { unsafe, end } as never;
  };

  /** Appends a row, which takes a position for each id. */
  append(kind: string, ids: string[] = [], ageMs = 5): Row {
    const position = this.last.position + Math.max(1, ids.length);
    const row = { position, transaction: `t${position}`, kind, ids: ids.length > 0 ? ids : null, ageMs };
    this.rows.push(row);
    this.last = { position, transaction: row.transaction };
    return row;
  }

  /** Commits a change of hotels, which the sequencer has to move. */
  commit(...ids: string[]): void {
    this.queued.push(ids);
    this.isDue = true;
    this.isUnread = true;
  }

  beginHistory(history: string): void {
    this.history = history;
    this.isContinued = true;
    this.rows = [];
    this.append('all_hotels');
  }

  #messageOf(text: string, [first, limit]: unknown[]): [string, () => unknown] {
    const begun = /begin_history\((.*?)\); commit/.exec(text)?.[1];
    if (begun) return [`begin history (${begun})`, () => this.beginHistory('begun')];
    const start = { ...this.last, history: this.history, secret: 'ab'.repeat(32) };
    if (text.includes('hotel_api_history()')) return ['start', () => [start]];
    if (text.includes('hotel_api_sequence()')) {
      const after = /hotel_api_poll\((\w+)/.exec(text)![1]!;
      return [`sequence, after ${after}`, () => [[], this.#sequenced(after === 'null' ? null : +after)]];
    }
    if (text.includes('hotel_api_poll')) return [`poll after ${first}`, () => this.#poll(first as number)];
    return [`before ${first}`, () => this.#before(first as number, limit as number)];
  }

  #sequenced(after: number | null): unknown[] {
    for (const ids of this.queued.splice(0)) this.append('hotels', ids);
    if (this.pieces > 0) this.pieces--;
    this.isDue = this.pieces > 0;
    this.isUnread = false;
    return this.#poll(after);
  }

  #poll(after: number | null): unknown[] {
    const state = {
      ...{ history: this.history, server: this.server, isUnread: this.isUnread, isDue: this.isDue },
      ...{ last: this.last.position, lastTransaction: this.last.transaction },
      isContinued: after === null || this.isContinued,
    };
    const found = after === null ? [] : this.rows.filter(({ position }) => position > after);
    const rows = found.slice(0, MAX_LOG_ROWS);
    return rows.length === 0 ? [{ ...state, position: null }] : rows.map((row) => ({ ...state, ...row }));
  }

  #before(last: number, limit: number): unknown[] {
    const rows = this.rows.filter(({ position }) => position <= last && position > this.deletedTo);
    const found = rows.toReversed().slice(0, limit);
    const some = found.length > 0 ? found : [{ position: null }];
    return some.map((row) => ({ ...row, deletedTo: this.deletedTo }));
  }
}

let clock: VirtualClock;
let database: FakeDatabase;
let follower: LogFollower;
let news: News[];
/** what it said, in order */
let heard: string[];
let learned: { ids: string[]; floor: number }[];
let metrics: Metrics;

function begin(): void {
  clock = new VirtualClock();
  database = new FakeDatabase();
  [news, heard, learned] = [[], [], []];
  metrics = new Metrics();
  const hear = (what: string) => () => void heard.push(what);
  follower = new LogFollower({
    open: database.open,
    onEvent: (event) => {
      if (event.type === 'history')
        heard.push(`history ${event.history} from ${event.position}, ${event.server}`);
      else if (event.type === 'restarted') heard.push(`restart, ${event.server}`);
      else if (event.type === 'learned') learned.push({ ids: idsOf(event.rows), floor: event.floor });
      else if (event.type === 'reachable') heard.push('reachable');
      else {
        news.push(event);
        if (event.rows.length > 0) heard.push(`news of ${idsOf(event.rows)}`);
      }
    },
    maxAgeMs: MAX_AGE_MS,
    metrics,
    events: {
      historyChanged: hear('event: another history'),
      logFollowed: hear('event: followed'),
      logNotFollowed: hear('event: not followed'),
    } as never,
  });
}
beforeEach(begin);
afterEach(async () => {
  database.befall = () => undefined;
  await follower.stop();
  expect(database.connections.size).toBe(0);
});

const idsOf = (rows: LogRow[]) => rows.flatMap(({ ids }) => ids);
const until = (isSo: () => boolean) => clock.until(isSo);

it('begins at the end of the log; of a copied database behind a call of the sequencer; again until it succeeds', async () => {
  database.append('hotels', ['a', 'b']);
  database.isDue = true;
  let failures = 2;
  database.befall = (call) =>
    call === 'start' && failures-- > 0 ? Promise.reject(new Error('no')) : undefined;
  void follower.start();
  await until(() => news.length > 0);
  expect(database.calls.slice(0, 3)).toEqual(['poll after null', 'sequence, after null', 'start']);
  expect(heard.at(-1)).toBe('history first from 2, start 1');
  expect(news[0]).toMatchObject({ rows: [], cursor: { position: 2, transaction: 't2' }, isListing: false });
});

it('a poll or a call of the sequencer makes the instance current as of its beginning, however late its answer', async () => {
  await follower.start();
  await until(() => news.length > 0);
  for (const [kind, prepare] of [
    ['poll', () => {}],
    ['sequence', () => database.commit('a')],
  ] as const) {
    const answer = Promise.withResolvers<void>();
    let beganMs = 0;
    database.befall = (call) => {
      if (!call.startsWith(kind) || beganMs > 0) return undefined;
      beganMs = monotonicMs();
      return answer.promise;
    };
    prepare();
    await until(() => beganMs > 0);
    database.append('keys', ['k']);
    const { length } = news;
    await clock.pass(20);
    answer.resolve();
    await until(() => news.length > length);
    expect(news[length]!.asOfMs).toBeLessThanOrEqual(beganMs);
    expect(idsOf(news[length]!.rows)).toContain('k');
  }
});

it('unread changes without a call of the sequencer make nothing current; ids still to be listed are told', async () => {
  await follower.start();
  database.isUnread = true;
  database.append('hotels', ['a']);
  await until(() => heard.includes('news of a'));
  expect(news.at(-1)!.asOfMs).toBeUndefined();
  database.pieces = 3;
  database.commit('b');
  await until(() => heard.includes('news of b'));
  expect(news.at(-1)).toMatchObject({ isListing: true, asOfMs: expect.any(Number) });
  await until(() => news.at(-1)!.isListing === false);
  expect(database.pieces).toBe(0);
});

it.each([MAX_LOG_ROWS, 2 * MAX_LOG_ROWS + 7])(
  '%i rows are polled in pieces, of which the last makes current',
  async (count) => {
    await follower.start();
    for (let i = 0; i < count; i++) database.append('hotels', [`h${i}`]);
    await until(() => news.at(-1)?.cursor?.position === count && news.at(-1)!.asOfMs !== undefined);
    expect(news.flatMap(({ rows }) => idsOf(rows))).toEqual(database.rows.flatMap(({ ids }) => ids));
    // the last piece of each poll says what is reached
    const reached = news.flatMap(({ rows, cursor }) => (rows.length > 0 && cursor ? [cursor.position] : []));
    expect(reached).toEqual([...new Set([MAX_LOG_ROWS, Math.min(count, 2 * MAX_LOG_ROWS), count])]);
    const cut = news.filter(({ cursor }) => !cursor || (cursor.position > 0 && cursor.position < count));
    expect(cut.filter(({ asOfMs }) => asOfMs !== undefined)).toEqual([]);
  },
);

describe.each<[string, () => unknown, string, number]>([
  ['another history', () => database.beginHistory('second'), 'history second from 2, start 1', 1],
  [
    'the same one anew',
    () => Object.assign(database, { isContinued: null }),
    'history first from 2, start 1',
    0,
  ],
  [
    'one that it begins, because its cursor is lost',
    () => Object.assign(database, { isContinued: false }),
    'history begun from 2, start 1',
    1,
  ],
])('the follower of %s', (_, change, begins, changes) => {
  it('begins at its end, at the second attempt too', async () => {
    database.append('hotels', ['a']);
    await follower.start();
    let attempts = 0;
    database.befall = (call) =>
      call.startsWith('begin') && attempts++ === 0 ? new Promise(() => {}) : undefined;
    if (begins.includes('first')) database.append('hotels', ['unknown']);
    change();
    await until(() => heard.includes(begins));
    database.isContinued = true;
    expect(heard.includes('event: another history')).toBe(changes === 1);
    const counted = await metrics.registry.getSingleMetric('hotel_api_history_changes_total')!.get();
    expect(counted.values[0]?.value).toBe(changes);
    database.append('hotels', ['b']);
    await until(() => heard.includes('news of b'));
    expect(heard).not.toContain('news of unknown');
  });

  it('learns no further from its former beginning, which would leave out the changes between the two', async () => {
    for (let i = 0; i < 50; i++) database.append('hotels', [`h${i}`]);
    const held = Promise.withResolvers<void>();
    database.befall = (call) => (call === 'before 30' ? held.promise : undefined);
    await follower.start();
    await until(() => database.calls.includes('before 30'));
    for (let i = 50; i < 55; i++) database.append('hotels', [`h${i}`]);
    change();
    await until(() => heard.filter((what) => what.startsWith('history')).length > 1);
    database.isContinued = true;
    held.resolve();
    const { length } = database.calls;
    await until(() => database.calls.slice(length).filter((call) => call.startsWith('poll')).length > 2);
    expect(learned.map(({ floor }) => floor)).not.toContain(10);
  });
});

it('learns no further once anything may have changed: the floor must stay there', async () => {
  for (let i = 0; i < 50; i++) database.append('hotels', [`h${i}`]);
  const held = Promise.withResolvers<void>();
  database.befall = (call) => (call === 'before 30' ? held.promise : undefined);
  await follower.start();
  await until(() => database.calls.includes('before 30'));
  database.append('all_keys');
  await until(() => news.at(-1)?.rows[0]?.kind === 'all_keys');
  held.resolve();
  await clock.pass(1_000);
  expect(learned.map(({ floor }) => floor)).toEqual([30]);
});

it('a restart of the server is told once, before its first news; a kind of a later release is a change of anything', async () => {
  await follower.start();
  database.server = 'start 2';
  database.append('prices', ['a']);
  await until(() => heard.includes('news of a'));
  expect(news.at(-1)!.rows).toMatchObject([{ kind: 'all_hotels', moves: true }]);
  await clock.pass(500);
  expect(heard).toEqual(['history first from 0, start 1', 'restart, start 2', 'news of a']);
});

it.each<[string, () => Promise<unknown>, () => void]>([
  ['fails', () => Promise.reject(new Error('refused')), () => {}],
  ['answers nothing in time', () => new Promise(() => {}), () => {}],
  ['is replaced on request', () => new Promise(() => {}), () => follower.reopen()],
])('a connection that %s is no sign of life, and another one goes on', async (_, befall, act) => {
  await follower.start();
  await until(() => news.length > 0);
  let polls = 0;
  database.befall = (call) => (call.startsWith('poll') && polls++ < 3 ? befall() : undefined);
  const { length } = news;
  await until(() => polls > 0);
  act();
  await until(() => polls > 2);
  expect(news).toHaveLength(length);
  database.append('hotels', ['a']);
  await until(() => heard.includes('news of a'));
  expect(database.opened).toBeGreaterThan(1);
  expect(database.connections.size).toBe(1);
  // the follower reports a reason once for all polls that fail for it
  const reported = ['event: not followed', 'event: followed', 'reachable', 'news of a'];
  expect([...new Set(heard.slice(1))]).toEqual(reported);
  expect(heard.filter((what) => what === 'reachable')).toHaveLength(1);
});

it('the log is learned backwards: all above the floor, to what is deleted, too old or a change of anything', async () => {
  const hotels = fc.integer({ min: 1, max: 3 });
  const all = fc.constantFrom('all_hotels', 'all_keys', 'all_collections');
  const log = fc.array(fc.oneof({ weight: 30, arbitrary: hotels }, all), { maxLength: 70, size: 'max' });
  const some = fc.option(fc.nat(70), { nil: 0, freq: 1 });
  await fc.assert(
    fc.asyncProperty(log, some, some, async (rows, deleted, old) => {
      begin();
      for (const [i, row] of rows.entries()) {
        const ids = typeof row === 'string' ? [] : Array.from({ length: row }, (_, n) => `h${i}-${n}`);
        database.append(typeof row === 'string' ? row : 'hotels', ids, i < old ? MAX_AGE_MS + 1 : 5);
      }
      database.deletedTo = database.rows[deleted - 1]?.position ?? 0;
      const last = database.rows.findLast(({ ids, ageMs }) => ids === null || ageMs > MAX_AGE_MS);
      const floor = Math.max(database.deletedTo, last?.position ?? 0);
      let failures = 1;
      database.befall = (call) =>
        call.startsWith('before') && failures-- > 0 ? Promise.reject(new Error('no')) : undefined;
      await follower.start();
      await until(() => learned.at(-1)?.floor === floor);
      const known: string[] = [];
      for (const piece of learned) {
        known.push(...piece.ids);
        const above = database.rows.filter(({ position }) => position > piece.floor);
        expect(known.toSorted()).toEqual(above.flatMap(({ ids }) => ids!).sort());
      }
      await follower.stop();
    }),
    { numRuns: 40 },
  );
});
