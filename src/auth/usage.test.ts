import type { Sql } from 'postgres';
import { beforeEach, expect, it, vi } from 'vitest';
import { fakeTimers } from '../lib/clock.fixture.ts';
import { type KeyUsage, UsageCounter, UsageWriter } from './usage.ts';

const of = (keyId: string, requests: number): KeyUsage => ({ keyId, requests, hotels: 2, bytes: 3 });
const failure = (how: object) => () => Promise.reject(Object.assign(new Error('failed'), how));
const rolledBack = failure({ code: '40P01', severity: 'ERROR' });

/** how each statement ends */
let answer: () => Promise<unknown>;
/** what each statement was to write */
let written: Record<string, unknown>[][];
let failures: string[];
let writer: UsageWriter;

beforeEach(() => {
  fakeTimers();
  [written, failures] = [[], []];
  answer = async () => [];
  const run = (text: string) => {
    written.push(JSON.parse(/\('(.*)'\)/s.exec(text)![1]!.replaceAll("''", "'")));
    return { simple: () => answer() };
  };
  const sql = Object.assign(async () => [], { unsafe: run, end: async () => {} }) as unknown as Sql;
  const onFailure = (reason: string) => failures.push(reason);
  writer = new UsageWriter(() => sql, onFailure);
});

const minute = () => vi.advanceTimersByTimeAsync(60_000);

it('a worker reports each response once, but for those that the client did not get or the service failed to give', () => {
  const counter = new UsageCounter();
  for (const status of [200, 304, 404, 0, 429, 500, 503]) counter.count('a', status, 1, 10);
  counter.count('b', 200, 1_000, 5_000);
  expect([counter.take(), counter.take()]).toEqual([
    [
      { keyId: 'a', requests: 3, hotels: 3, bytes: 30 },
      { keyId: 'b', requests: 1, hotels: 1_000, bytes: 5_000 },
    ],
    [],
  ]);
});

it('an instance writes once a minute, in one statement, what its workers have reported', async () => {
  await minute();
  expect(written).toEqual([]);
  for (let i = 0; i < 6; i++) writer.add([of('a', 10), of("it's", 1)]);
  await minute();
  await minute();
  const day = new Date().toISOString().slice(0, 10);
  expect(written).toEqual([
    [
      { day, key_id: 'a', requests: 60, hotels: 12, bytes: 18 },
      { day, key_id: "it's", requests: 6, hotels: 12, bytes: 18 },
    ],
  ]);
});

it('what the server has rolled back is written later, and what it may have committed is not written twice', async () => {
  answer = rolledBack;
  writer.add([of('a', 1)]);
  await minute();
  answer = failure({ code: 'CONNECTION_CLOSED' });
  await minute();
  await minute();
  expect(written).toHaveLength(2);
  expect(failures).toEqual(['failed', 'failed']);
  writer.add([of('a', 5)]);
  await minute();
  expect(written.at(-1)).toMatchObject([{ requests: 5 }]);
  // a login that may not write it is not tried again
  answer = failure({ code: '42501', severity: 'ERROR' });
  for (let i = 0; i < 3; i++) {
    writer.add([of('a', 1)]);
    await minute();
  }
  expect(written).toHaveLength(4);
});

it('while nothing can be written, the use of 100,000 keys is kept and goes on being counted, and that of others is not', async () => {
  answer = rolledBack;
  writer.add(Array.from({ length: 100_000 }, (_, i) => of(`key-${i}`, 1)));
  await minute();
  writer.add([of('one-more', 1), of('key-99999', 5)]);
  answer = async () => [];
  await minute();
  const last = written.at(-1)!;
  expect(last).toHaveLength(100_000);
  expect(last.at(-1)).toMatchObject({ key_id: 'key-99999', requests: 6 });
  writer.add([of('one-more', 1)]);
  await minute();
  expect(written.at(-1)).toMatchObject([{ key_id: 'one-more', requests: 1 }]);
});
