import { expect, it, vi } from 'vitest';
import { fakeTimers, VirtualClock } from './clock.fixture.ts';
import { SingleFlight } from './single-flight.ts';

it('work in flight is shared under each of its keys until it settles', async () => {
  const flights = new SingleFlight<number>(100);
  for (const settle of ['resolve', 'reject'] as const) {
    const work = Promise.withResolvers<number>();
    expect(flights.share(['a', 'b'], work.promise)).toBe(work.promise);
    expect([flights.get('a'), flights.get('b')]).toEqual([work.promise, work.promise]);
    work[settle](1);
    await Promise.allSettled([work.promise]);
    await Promise.resolve();
    expect([flights.get('a'), flights.get('b')]).toEqual([undefined, undefined]);
  }
});

it('work that is forgotten does not remove what has begun after it', async () => {
  const flights = new SingleFlight<number>(100);
  const first = Promise.withResolvers<number>();
  flights.share(['a'], first.promise);
  flights.forget('a');
  const second = flights.share(['a'], new Promise(() => {}));
  first.resolve(1);
  await first.promise;
  await Promise.resolve();
  expect(flights.get('a')).toBe(second);
  flights.clear();
  expect(flights.get('a')).toBeUndefined();
});

it('work that began too long ago is not joined, as before a stop of this process', () => {
  fakeTimers();
  const flights = new SingleFlight<number>(100);
  const work = flights.share(['a'], new Promise(() => {}));
  vi.advanceTimersByTime(100);
  expect(flights.get('a')).toBe(work);
  vi.advanceTimersByTime(1);
  expect(flights.get('a')).toBeUndefined();
});

it.each([
  ['full', ['read', 'read'], 1],
  ['failed', ['failed', 'failed'], 0],
])(
  'work that is %s for one API key is begun again for others only if its share is full',
  async (reason, results, begins) => {
    const flights = new SingleFlight<string>(100, (error) => (error as Error).message === 'full');
    const begin = vi.fn(async () => 'read');
    const own = [() => Promise.reject(new Error(reason)), begin].map((first) =>
      flights.run('page', 'own', first),
    );
    const others = [1, 2].map(() => flights.run('page', 'other', begin));
    const settled = (works: Promise<string>[]) =>
      Promise.all(works.map((work) => work.catch(({ message }) => message)));
    expect(await settled(own)).toEqual([reason, reason]);
    expect(await settled(others)).toEqual(results);
    expect(begin).toHaveBeenCalledTimes(begins);
  },
);

it('work that began before a caller had what it knows is joined in the same iteration alone', async () => {
  const clock = new VirtualClock();
  const flights = new SingleFlight<number>(1_000);
  const { promise, resolve } = Promise.withResolvers<number>();
  const begin = vi.fn(() => promise);
  const run = (sinceMs: number) => void flights.run('page', 'own', begin, sinceMs);
  run(clock.nowMs);
  run(clock.nowMs + 1);
  expect(begin).toHaveBeenCalledTimes(1);
  await clock.pass(1);
  run(clock.nowMs - 1);
  expect(begin).toHaveBeenCalledTimes(1);
  run(clock.nowMs);
  expect(begin).toHaveBeenCalledTimes(2);
  resolve(0);
});
