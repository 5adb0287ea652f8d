import type { Sql } from 'postgres';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { systemMs } from '../lib/clock.ts';
import { Metrics } from '../observability/metrics.ts';
import { LogFollower, type News } from './follower.ts';
import { MAX_ROWS } from './log-connection.ts';
import type { LogPlace, LogRow } from './row.ts';

const MAX_AGE_MS = 60_000;

/** Row of the log, as PostgreSQL returns it. */
interface Row {
  position: number;
  transaction: string;
  kind: string;
  ids: string[] | null;
  age_ms: number;
}

/** A log in memory, behind connections that answer like PostgreSQL, late or not at all. */
class FakeDatabase {
  history = 'first';
  server = 'start 1';
  /** rows that caches need; others have the positions between */
  rows: Row[] = [];
  last: LogPlace = { position: 0, transaction: '1' };
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
  ended = 0;
  /** waits before each answer */
  befall: (call: string) => Promise<unknown> | undefined = () => undefined;

  readonly open = (): Sql => {
    this.opened++;
    const closed = Promise.withResolvers<never>();
    closed.promise.catch(() => {});
    const run = async (text: string, parameters: unknown[] = []) => {
      if (text === 'select') return [];
      const [call, answer] = this.#messageOf(text, parameters);
      this.calls.push(call);
      await Promise.race([this.befall(call), closed.promise]);
      return answer();
    };
    const unsafe = (text: string, parameters?: unknown[]) => {
      // a query is sent once, when it is awaited
      const query = { simple: () => run(text) };
      return parameters || !text.includes(';') ? run(text, parameters) : query;
    };
    const end = async () => {
      this.ended++;
      closed.reject(new Error('the connection has ended'));
    };
    return { unsafe, end } as never;
  };

  /** Appends a row, which takes a position for each id. */
  append(kind: string, ids: string[] = [], age_ms = 5): Row {
    const position = this.last.position + Math.max(1, ids.length);
    const row = { position, transaction: `t${position}`, kind, ids: ids.length > 0 ? ids : null, age_ms };
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

  #messageOf(text: string, parameters: unknown[]): [string, () => unknown] {
    if (text.includes('hotel_api_begin_history')) {
      const given = /begin_history\((.*?)\); commit/.exec(text)![1];
      return [`begin history (${given})`, () => this.beginHistory('begun')];
    }
    if (text.includes('hotel_api_history()')) {
      const secret = 'ab'.repeat(32);
      return ['start', () => [{ ...this.last, history: this.history, secret }]];
    }
    if (text.includes('hotel_api_sequence()')) {
      const after = /hotel_api_poll\((\w+)/.exec(text)![1];
      return [
        `sequence, after ${after}`,
        () => [[], this.#sequenced(after === 'null' ? null : Number(after))],
      ];
    }
    if (text.includes('hotel_api_poll')) {
      const [after] = parameters as [number | null];
      return [`poll after ${after}`, () => this.#poll(after)];
    }
    const [position, limit] = parameters as [number, number];
    return [`before ${position}`, () => this.#before(position, limit)];
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
      history: this.history,
      server: this.server,
      last: this.last.position,
      last_transaction: this.last.transaction,
      is_unread: this.isUnread,
      is_due: this.isDue,
      is_continued: after === null ? true : this.isContinued,
    };
    const rows =
      after === null ? [] : this.rows.filter(({ position }) => position > after).slice(0, MAX_ROWS);
    if (rows.length === 0) return [{ ...state, position: null }];
    return rows.map((row) => ({ ...state, ...row }));
  }

  #before(position: number, limit: number): unknown[] {
    const rows = this.rows.filter((row) => row.position <= position && row.position > this.deletedTo);
    const found = rows.toReversed().slice(0, limit);
    return (found.length > 0 ? found : [{ position: null }]).map((row) => ({
      ...row,
      log_from: this.deletedTo,
    }));
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

beforeEach(() => {
  clock = new VirtualClock();
  database = new FakeDatabase();
  [news, heard, learned] = [[], [], []];
  metrics = new Metrics();
  const hear = (what: string) => () => void heard.push(what);
  follower = new LogFollower({
    open: database.open,
    onHistory: ({ history, position }, server) =>
      heard.push(`history ${history} from ${position}, ${server}`),
    onRestart: (server) => heard.push(`restart, ${server}`),
    onNews: (each) => {
      news.push(each);
      if (each.rows.length > 0) heard.push(`news of ${idsOf(each.rows)}`);
    },
    onLearned: (rows, floor) => learned.push({ ids: idsOf(rows), floor }),
    onReachable: hear('reachable'),
    maxAgeMs: MAX_AGE_MS,
    metrics,
    events: {
      historyChanged: hear('event: another history'),
      logFollowed: hear('event: followed'),
      logNotFollowed: hear('event: not followed'),
    } as never,
  });
});
afterEach(async () => {
  database.befall = () => undefined;
  await follower.stop();
});

const idsOf = (rows: LogRow[]) => rows.flatMap(({ ids }) => ids);
const lastNews = () => news.at(-1);
const until = (isSo: () => boolean) => clock.until(isSo);
/** Waits until polls that began after this call have been answered. */
async function polled(): Promise<void> {
  const { length } = database.calls;
  await until(() => database.calls.slice(length).filter((call) => call.startsWith('poll')).length > 2);
}
const counted = async (name: string) =>
  (await metrics.registry.getSingleMetric(name)!.get()).values[0]?.value;

describe('the beginning', () => {
  it('is the end of the log, whose rows so far are no news', async () => {
    database.append('hotels', ['a', 'b']);
    await follower.start();
    expect(heard).toEqual(['history first from 2, start 1']);
    await until(() => news.length > 0);
    expect(news[0]).toEqual({
      rows: [],
      place: { position: 2, transaction: 't2' },
      isBusy: false,
      asOfMs: expect.any(Number),
    });
  });

  it('follows a call of the sequencer, if it is due: a copied database begins a history by it', async () => {
    database.append('hotels', ['a']);
    database.isDue = true;
    await follower.start();
    expect(database.calls.slice(0, 3)).toEqual(['poll after null', 'sequence, after null', 'start']);
  });

  it('is tried until it succeeds', async () => {
    let failures = 2;
    database.befall = (call) =>
      call === 'start' && failures-- > 0 ? Promise.reject(new Error('no')) : undefined;
    void follower.start();
    await until(() => heard.at(-1)?.startsWith('history') ?? false);
    expect(database.calls.filter((call) => call === 'start')).toHaveLength(3);
  });
});

describe('a poll', () => {
  beforeEach(async () => {
    await follower.start();
    await until(() => news.length > 0);
  });

  it('that finds nothing unread makes the instance current as of its beginning, however late its answer', async () => {
    const answer = Promise.withResolvers<void>();
    let beganMs = 0;
    database.befall = (call) => {
      if (!call.startsWith('poll') || beganMs > 0) return undefined;
      beganMs = systemMs();
      return answer.promise;
    };
    await until(() => beganMs > 0);
    database.append('keys', ['k']);
    const { length } = news;
    await clock.pass(20);
    answer.resolve();
    await until(() => news.length > length);
    expect(news[length]!.asOfMs).toBeLessThanOrEqual(beganMs);
    expect(idsOf(news[length]!.rows)).toEqual(['k']);
  });

  it('that finds changes which are not in the log, and does not call the sequencer, does not make it current', async () => {
    database.isUnread = true;
    database.append('hotels', ['a']);
    await until(() => heard.includes('news of a'));
    const { length } = news;
    await until(() => news.length > length);
    expect(news.slice(length - 1).map(({ asOfMs }) => asOfMs)).toEqual([undefined, undefined]);
    database.isUnread = false;
    await until(() => lastNews()!.asOfMs !== undefined);
  });

  it('tells that ids of a large change are still to be listed', async () => {
    database.pieces = 3;
    database.commit('a');
    await until(() => heard.includes('news of a'));
    expect(lastNews()).toMatchObject({ isBusy: true, asOfMs: expect.any(Number) });
    await until(() => lastNews()!.isBusy === false);
    expect(database.pieces).toBe(0);
  });

  it('that is cut is followed by another one at once, and does not make the instance current', async () => {
    for (let i = 0; i < 2 * MAX_ROWS + 7; i++) database.append('hotels', [`h${i}`]);
    await until(() => lastNews()?.place?.position === database.last.position);
    const polls = database.calls.filter((call) => call.startsWith('poll'));
    expect(polls.slice(-10)).toEqual(
      expect.arrayContaining([`poll after ${MAX_ROWS}`, `poll after ${2 * MAX_ROWS}`]),
    );
    const withRows = news.filter(({ rows }) => rows.length > 0);
    expect(withRows.flatMap(({ rows }) => idsOf(rows))).toEqual(database.rows.flatMap(({ ids }) => ids));
    // the last piece of each poll says what is reached, that of the last poll as of when
    const reached = withRows.flatMap(({ place }) => place?.position ?? []);
    expect(reached).toEqual([MAX_ROWS, 2 * MAX_ROWS, 2 * MAX_ROWS + 7]);
    expect(withRows.filter(({ asOfMs }) => asOfMs !== undefined)).toEqual([withRows.at(-1)]);
  });

  it('of exactly as many rows as one poll returns is followed by one that finds no more', async () => {
    for (let i = 0; i < MAX_ROWS; i++) database.append('hotels', [`h${i}`]);
    await until(() => lastNews()?.place?.position === MAX_ROWS && lastNews()!.asOfMs !== undefined);
    expect(news.flatMap(({ rows }) => rows)).toHaveLength(MAX_ROWS);
  });

  it('takes a kind of a later release for a change of anything', async () => {
    database.append('prices', ['a']);
    await until(() => news.some(({ rows }) => rows[0]?.kind === 'all_hotels'));
  });

  it('of an idle log is news five times a second at most', async () => {
    const [told, calls] = [news.length, database.calls.length];
    await clock.pass(500);
    expect(database.calls.length - calls).toBeGreaterThan(3);
    expect(news.length - told).toBeLessThanOrEqual(3);
  });
});

describe('another history', () => {
  beforeEach(async () => {
    database.append('hotels', ['a']);
    await follower.start();
    await until(() => news.length > 0);
  });

  it('is followed from its end', async () => {
    database.beginHistory('second');
    await until(() => heard.includes('history second from 2, start 1'));
    expect(heard).toContain('event: another history');
    expect(await counted('hotel_api_history_changes_total')).toBe(1);
    database.append('hotels', ['b']);
    await until(() => heard.includes('news of b'));
  });

  it('is tried again if its beginning does not end', async () => {
    let attempts = 0;
    database.befall = (call) =>
      call.startsWith('begin') && attempts++ === 0 ? new Promise(() => {}) : undefined;
    database.isContinued = false;
    await until(() => heard.includes('history begun from 2, start 1'));
    expect(attempts).toBe(2);
  });
});

it('a place that is forgotten begins the same history anew, at its end', async () => {
  await follower.start();
  database.append('hotels', ['a']);
  database.isContinued = null;
  await until(() => heard.length > 1);
  database.isContinued = true;
  expect(heard.slice(0, 2)).toEqual(['history first from 0, start 1', 'history first from 1, start 1']);
  expect(await counted('hotel_api_history_changes_total')).toBe(0);
  database.append('hotels', ['b']);
  await until(() => heard.includes('news of b'));
  expect(heard).not.toContain('news of a');
});

it('a restart of the server is told once, before its first news', async () => {
  await follower.start();
  database.server = 'start 2';
  database.append('hotels', ['a']);
  await until(() => heard.includes('news of a'));
  await polled();
  expect(heard).toEqual(['history first from 0, start 1', 'restart, start 2', 'news of a']);
});

describe('a connection', () => {
  beforeEach(async () => {
    await follower.start();
    await until(() => news.length > 0);
  });

  it('that fails is replaced, and failures are no sign of life', async () => {
    database.befall = (call) => (call.startsWith('poll') ? Promise.reject(new Error('refused')) : undefined);
    const { length } = news;
    await until(() => database.opened > 3);
    expect(news).toHaveLength(length);
    expect(database.ended).toBe(database.opened - 1);
    database.befall = () => undefined;
    database.append('hotels', ['a']);
    await until(() => heard.includes('news of a'));
    // once, however many polls have failed
    expect(heard.slice(1)).toEqual(['event: not followed', 'event: followed', 'reachable', 'news of a']);
    expect(await counted('hotel_api_log_poll_failures_total')).toBeGreaterThanOrEqual(3);
  });

  it('whose answer is late is replaced, and the answer is not used when it comes', async () => {
    const answer = Promise.withResolvers<void>();
    let isHeld = false;
    database.befall = (call) => {
      if (!call.startsWith('poll') || isHeld) return undefined;
      isHeld = true;
      return answer.promise;
    };
    await until(() => isHeld);
    const { length } = news;
    await until(() => database.opened === 2);
    expect(news.slice(length)).toEqual([]);
    database.append('hotels', ['a']);
    answer.resolve();
    await until(() => heard.includes('news of a'));
    expect(heard.filter((what) => what === 'news of a')).toHaveLength(1);
  });

  it('is replaced on request, while a poll is under way too, whose answer is not used', async () => {
    let isHeld = false;
    database.befall = (call) => {
      if (!call.startsWith('poll') || isHeld) return undefined;
      isHeld = true;
      return new Promise(() => {});
    };
    await until(() => isHeld);
    follower.reopen();
    database.append('hotels', ['a']);
    await until(() => heard.includes('news of a'));
    expect([database.opened, database.ended]).toEqual([2, 1]);
  });
});

describe('it learns the log backwards', () => {
  const row = (i: number, age_ms = 5) => database.append('hotels', [`h${i}`], age_ms);
  const floors = () => learned.map(({ floor }) => floor);
  const ids = () => learned.flatMap(({ ids: each }) => each);
  const all = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `h${to - 1 - i}`);

  it('in pieces, as far as it goes; everything after the floor is known with each', async () => {
    for (let i = 0; i < 50; i++) row(i);
    await follower.start();
    await until(() => floors().at(-1) === 0);
    expect(floors()).toEqual([30, 10, 0]);
    expect(ids()).toEqual(all(0, 50));
  });

  it('as far as it is not deleted: earlier changes are not known', async () => {
    for (let i = 0; i < 50; i++) row(i);
    database.deletedTo = 25;
    await follower.start();
    await until(() => floors().at(-1) === 25);
    expect([floors(), ids()]).toEqual([[30, 25], all(25, 50)]);
  });

  it('without rows too', async () => {
    row(0);
    database.deletedTo = 1;
    await follower.start();
    await until(() => learned.length > 0);
    expect(learned).toEqual([{ ids: [], floor: 1 }]);
  });

  it.each(['all_hotels', 'all_keys', 'all_collections'])('up to a change of anything: %s', async (kind) => {
    for (let i = 0; i < 30; i++) row(i);
    const { position } = database.append(kind);
    for (let i = 30; i < 60; i++) row(i);
    await follower.start();
    await until(() => floors().at(-1) === position);
    expect(ids()).toEqual(all(30, 60));
  });

  it('up to the age of the oldest value in Redis', async () => {
    row(0, MAX_AGE_MS + 1_000);
    const { position } = row(1, MAX_AGE_MS + 1);
    for (let i = 2; i < 5; i++) row(i);
    await follower.start();
    await until(() => learned.length > 0);
    expect(learned).toEqual([{ ids: all(2, 5), floor: position }]);
  });

  it('by all ids of a row: those of a row that was read are above the floor', async () => {
    for (let i = 0; i < 20; i++) database.append('hotels', [`a${i}`, `b${i}`, `c${i}`]);
    database.append('hotels', ['last']);
    await follower.start();
    await until(() => learned.length > 1);
    expect(floors()).toEqual([3, 0]);
  });

  it('again after a failure', async () => {
    for (let i = 0; i < 50; i++) row(i);
    let failures = 2;
    database.befall = (call) =>
      call.startsWith('before') && failures-- > 0 ? Promise.reject(new Error('no')) : undefined;
    await follower.start();
    await until(() => floors().at(-1) === 0);
    expect(ids()).toEqual(all(0, 50));
  });

  it.each([
    ['another history', () => database.beginHistory('second')],
    [
      'the same one anew',
      () => {
        database.isContinued = null;
      },
    ],
  ])('no further once it follows %s, from which it learns', async (_, change) => {
    for (let i = 0; i < 50; i++) row(i);
    const held = Promise.withResolvers<void>();
    database.befall = (call) => (call === 'before 30' ? held.promise : undefined);
    await follower.start();
    await until(() => database.calls.includes('before 30'));
    for (let i = 50; i < 55; i++) row(i);
    change();
    await until(() => heard.some((what) => /from 5[56]/.test(what)));
    database.isContinued = true;
    held.resolve();
    await polled();
    // what it learns from the first beginning would leave out the changes between the two
    expect(floors()).not.toContain(10);
  });
});

it('it stops, with its connection', async () => {
  await follower.start();
  await follower.stop();
  const { length } = database.calls;
  await clock.pass(100);
  expect(database.calls).toHaveLength(length);
  expect(database.ended).toBe(database.opened);
});
