import { setImmediate as nextIteration } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { ChangesFollower } from './changes-follower.ts';

const sql = async () => [{ history: '0'.repeat(32), position: 1, isFull: true }];

/** Runs a follower of a service with these changes in the first page and none in the next. */
function follow(changes: { id: string; hotel: object | null }[] = []) {
  let pages = 0;
  const client = {
    changesAfter: async () => {
      await nextIteration();
      return { changes: pages++ === 0 ? changes : [], next: 'token', more: false };
    },
  };
  const follower = new ChangesFollower(sql as never, client as never);
  const end = new AbortController();
  const wait = (id: string, truth: object = {}) =>
    follower.untilDelivered(id, truth as never, performance.now(), () => Infinity, end.signal);
  const untilPages = async (count: number) => {
    while (pages < count) await nextIteration();
  };
  return { running: follower.run('key', end.signal), wait, untilPages, end };
}

it('any number of changed hotels may be waited for at once, until the end', async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on('warning', warn);
  onTestFinished(() => void process.off('warning', warn));
  const { running, wait, untilPages, end } = follow();
  await nextIteration();
  const waits = Array.from({ length: 30 }, (_, i) => wait(`h${i}`));
  await untilPages(5);
  end.abort();
  expect(await Promise.all(waits)).toEqual(new Array(30).fill(undefined));
  await running;
  await nextIteration();
  expect(warnings).toEqual([]);
});

it('a wait ends when the end comes while a state is compared', async () => {
  const { running, wait, untilPages, end } = follow([{ id: 'h', hotel: null }]);
  await untilPages(2);
  const comparing = Promise.withResolvers<void>();
  const compared = Promise.withResolvers<boolean>();
  const truth = {
    matches: () => {
      comparing.resolve();
      return compared.promise;
    },
  };
  const waiting = wait('h', truth);
  await comparing.promise;
  end.abort();
  await running;
  compared.resolve(false);
  expect(await waiting).toBeUndefined();
});
