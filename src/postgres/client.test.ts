import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { isOutage } from '../errors.ts';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { Postgres } from './client.ts';

const ROWS = Object.assign([], { count: 0, command: 'SELECT' });

/** A client whose queries all do this. */
function clientOf(run: () => Promise<unknown>, connections = 1) {
  const answersMs: number[] = [];
  const breaker: boolean[] = [];
  const opened = { count: 0 };
  const sql = Object.assign(run, { unsafe: run, end: async () => {} }) as unknown as Sql;
  const postgres = new Postgres({
    open: () => {
      opened.count++;
      return sql;
    },
    ...{ connections, queueLimit: 1_000, timeoutMs: 60_000 },
    onBreaker: (isOpen) => breaker.push(isOpen),
    onAnswer: (atMs) => answersMs.push(atMs),
  });
  return { postgres, answersMs, breaker, opened };
}

it('a place that becomes free goes to the query that waits for it, not in addition to one that comes', async () => {
  const running: (() => void)[] = [];
  let most = 0;
  const { postgres } = clientOf(async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    running.push(resolve);
    most = Math.max(most, running.length);
    await promise;
    return ROWS;
  });
  for (let steps = 0; steps < 20; steps++) {
    const queries = [postgres.rows('', [], '', 'load'), postgres.rows('', [], '', 'list')];
    await nextTurn();
    running.shift()!();
    // in one of these steps the place is being handed over
    for (let step = 0; step < steps; step++) await Promise.resolve();
    queries.push(postgres.rows('', [], '', 'changes'));
    for (let left = queries.length - 1; left > 0; left--) {
      await nextTurn();
      running.shift()!();
    }
    await Promise.all(queries);
  }
  expect(most).toBe(1);
  expect([postgres.running, postgres.waiting]).toEqual([0, 0]);
  await postgres.close();
});

it('the next query of a lane waits until the rows of the last are used, those of others do not', async () => {
  let begun = 0;
  const { postgres } = clientOf(async () => {
    begun++;
    return ROWS;
  }, 4);
  const { promise: used, resolve } = Promise.withResolvers<void>();
  const first = postgres.rows('', [], '', 'changes', () => used);
  const second = postgres.rows('', [], '', 'changes');
  await postgres.rows('', [], '', 'load');
  await nextTurn();
  expect([begun, postgres.running]).toEqual([2, 0]);
  resolve();
  await Promise.all([first, second]);
  expect(begun).toBe(3);
  await postgres.close();
});

const serverError = (code: string, severity = 'ERROR') => Object.assign(new Error(code), { code, severity });

it.each([
  ['a statement that is wrong', serverError('22012'), true],
  ['statement_timeout', serverError('57014'), true],
  ['lock_timeout', serverError('55P03'), true],
  ['a server without a free connection', serverError('53300', 'FATAL'), false],
  ['a server that stops', serverError('57P01', 'FATAL'), false],
  ['a connection that is lost', Object.assign(new Error('lost'), { code: 'CONNECTION_CLOSED' }), false],
  ['an error of a pooler', Object.assign(new Error('no server'), { code: '08P01' }), false],
])('%s: whether the server has answered', async (_, error, hasAnswered) => {
  const { postgres, answersMs } = clientOf(() => Promise.reject(error));
  await expect(postgres.rows('', [])).rejects.toThrow();
  expect(answersMs.length > 0).toBe(hasAnswered);
  await postgres.close();
});

it('while a table is locked, one query of its lane waits for it, and other lanes keep their connections', async () => {
  const running: PromiseWithResolvers<unknown>[] = [];
  const { postgres } = clientOf(() => {
    running.push(Promise.withResolvers());
    return running.at(-1)!.promise;
  }, 2);
  const first = [1, 2, 3].map(() => postgres.rows('', []));
  const other = postgres.rows('', [], '', 'keys');
  const outcomes = Promise.allSettled(first);
  await nextTurn();
  for (const { reject } of running.splice(0)) reject(serverError('55P03'));
  // the third has waited for a connection meanwhile, and goes on as the only one
  await nextTurn();
  expect(running).toHaveLength(2);
  const locked = await postgres.rows('', []).catch((error) => error);
  expect([locked.rejection, isOutage(locked)]).toEqual(['postgres_locked', false]);
  for (const { resolve } of running.splice(0)) resolve(ROWS);
  expect(await other).toBe(ROWS);
  expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled']);
  // the lock has ended
  const after = [1, 2].map(() => postgres.rows('', []));
  await nextTurn();
  expect(running).toHaveLength(2);
  for (const { resolve } of running) resolve(ROWS);
  await Promise.all(after);
  await postgres.close();
});

it.each([
  ['load', [true]],
  ['changes', []],
] as const)(
  'a late query of the lane %s opens the circuit breaker, or may take long',
  async (lane, opened) => {
    const clock = new VirtualClock();
    const { postgres, breaker } = clientOf(() => new Promise(() => {}));
    const late = expect(postgres.rows('', [], '', lane)).rejects.toMatchObject({
      rejection: 'postgres_timeout',
    });
    await clock.pass(60_000);
    await late;
    expect(breaker).toEqual(opened);
    await postgres.close();
  },
);

it('an outage ends when the server answers, although a table is locked', async () => {
  let answer = Object.assign(new Error('down'), { code: 'ECONNREFUSED', syscall: 'connect' }) as Error;
  const { postgres, breaker } = clientOf(() => Promise.reject(answer));
  for (let i = 0; i < 3; i++) await postgres.rows('', []).catch(() => {});
  expect(breaker).toEqual([true]);
  answer = serverError('55P03');
  postgres.reachable();
  await expect.poll(() => breaker).toEqual([true, false]);
  await postgres.close();
});

it.each([
  ['never', 2],
  ['later', 1],
])('connections are replaced if a late query ends %s while others are answered', async (ends, count) => {
  const clock = new VirtualClock();
  const late = Promise.withResolvers<unknown>();
  const answers = [late.promise];
  const { postgres, opened } = clientOf(async () => answers.shift() ?? ROWS, 2);
  const query = postgres.rows('', [], '', 'load');
  const isLate = expect(query).rejects.toThrow('not done within');
  await clock.pass(1);
  await postgres.rows('', [], '', 'load');
  await clock.pass(60_000);
  await isLate;
  if (ends === 'later') late.resolve(ROWS);
  await clock.pass(4 * 60_000);
  expect(opened.count).toBe(count);
  await postgres.close();
});

it('a late query keeps its place until the server has ended it', async () => {
  const clock = new VirtualClock();
  const running: PromiseWithResolvers<unknown>[] = [];
  const { postgres } = clientOf(async (text?: unknown) => {
    // the server answers pings
    if (typeof text !== 'string') return ROWS;
    running.push(Promise.withResolvers());
    return running.at(-1)!.promise;
  });
  const late = expect(postgres.rows('', [], '', 'list')).rejects.toThrow('not done within');
  await clock.pass(30_000);
  const next = postgres.rows('', [], '', 'load');
  await clock.pass(35_000);
  await late;
  expect([running.length, postgres.running]).toEqual([1, 1]);
  running[0]!.reject(serverError('57014'));
  await clock.until(() => running.length === 2);
  running[1]!.resolve(ROWS);
  expect(await next).toBe(ROWS);
  expect(postgres.running).toBe(0);
  await postgres.close();
});
