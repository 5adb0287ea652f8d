import { setImmediate as nextIteration } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { ChangesFollower } from './changes-follower.ts';

const sql = async () => [{ history: '0'.repeat(32), position: 1, isFull: true }];

it('any number of changed hotels may be waited for at once, until the end', async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on('warning', warn);
  onTestFinished(() => void process.off('warning', warn));
  let pages = 0;
  const client = {
    changesAfter: async () => {
      pages++;
      await nextIteration();
      return { changes: [], next: 'token', more: false };
    },
  };
  const follower = new ChangesFollower(sql as never, client as never);
  const end = new AbortController();
  const running = follower.run('key', end.signal);
  await nextIteration();
  const waits = Array.from({ length: 30 }, (_, i) =>
    follower.untilDelivered(`h${i}`, {} as never, performance.now(), () => Infinity, end.signal),
  );
  while (pages < 5) await nextIteration();
  end.abort();
  expect(await Promise.all(waits)).toEqual(new Array(30).fill(undefined));
  await running;
  await nextIteration();
  expect(warnings).toEqual([]);
});

it('a wait ends when the end comes while a state is compared', async () => {
  let pages = 0;
  const client = {
    changesAfter: async () => {
      await nextIteration();
      return { changes: pages++ === 0 ? [{ id: 'h', hotel: null }] : [], next: 'token', more: false };
    },
  };
  const follower = new ChangesFollower(sql as never, client as never);
  const end = new AbortController();
  const running = follower.run('key', end.signal);
  while (pages < 2) await nextIteration();
  const comparing = Promise.withResolvers<void>();
  const compared = Promise.withResolvers<boolean>();
  const truth = {
    matches: () => {
      comparing.resolve();
      return compared.promise;
    },
  };
  const wait = follower.untilDelivered('h', truth as never, performance.now(), () => Infinity, end.signal);
  await comparing.promise;
  end.abort();
  await running;
  compared.resolve(false);
  expect(await wait).toBeUndefined();
});
