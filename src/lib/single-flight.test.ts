import { describe, expect, it, vi } from 'vitest';
import { fakeTimers, realClocks } from './clock.fixture.ts';
import { SingleFlight } from './single-flight.ts';

describe('work in flight', () => {
  it('is shared under each of its keys until it settles', async () => {
    const flights = new SingleFlight<number>(100);
    const { promise, resolve } = Promise.withResolvers<number>();
    expect(flights.share(['a', 'b'], promise)).toBe(promise);
    expect(flights.get('a')).toBe(promise);
    expect(flights.get('b')).toBe(promise);
    resolve(1);
    await promise;
    await Promise.resolve();
    expect(flights.get('a')).toBeUndefined();
    expect(flights.get('b')).toBeUndefined();
  });

  it('is no longer shared when it fails, and its failure reaches its callers alone', async () => {
    const flights = new SingleFlight<number>(100);
    await expect(flights.share(['a'], Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    expect(flights.get('a')).toBeUndefined();
  });

  it('is not removed by work that was forgotten before it', async () => {
    const flights = new SingleFlight<number>(100);
    const first = Promise.withResolvers<number>();
    flights.share(['a'], first.promise);
    flights.forget('a');
    const second = new Promise<number>(() => {});
    flights.share(['a'], second);
    first.resolve(1);
    await first.promise;
    await Promise.resolve();
    expect(flights.get('a')).toBe(second);
    flights.clear();
    expect(flights.get('a')).toBeUndefined();
  });

  it('is not joined when it began too long ago, as before a stop of this process', () => {
    fakeTimers();
    const flights = new SingleFlight<number>(100);
    const work = flights.share(['a'], new Promise(() => {}));
    vi.advanceTimersByTime(100);
    expect(flights.get('a')).toBe(work);
    vi.advanceTimersByTime(1);
    expect(flights.get('a')).toBeUndefined();
    realClocks();
  });
});

describe('the share of an API key', () => {
  const isFull = (error: unknown) => (error as Error).message === 'full';
  const full = () => Promise.reject(new Error('full'));

  it('that is used up fails only its own requests: others begin the work again, once for each key', async () => {
    const flights = new SingleFlight<string>(100, isFull);
    const begin = vi.fn(async () => 'read');
    const began = [flights.run('page', 'full', full), flights.run('page', 'full', begin)];
    const others = [flights.run('page', 'other', begin), flights.run('page', 'other', begin)];
    for (const one of began) await expect(one).rejects.toThrow('full');
    expect(await Promise.all(others)).toEqual(['read', 'read']);
    expect(begin).toHaveBeenCalledTimes(1);
  });

  it('does not repeat work that failed for another reason', async () => {
    const flights = new SingleFlight<string>(100, isFull);
    const begin = vi.fn(async () => 'read');
    const began = flights.run('page', 'first', () => Promise.reject(new Error('failed')));
    const joined = flights.run('page', 'other', begin);
    await expect(began).rejects.toThrow('failed');
    await expect(joined).rejects.toThrow('failed');
    expect(begin).not.toHaveBeenCalled();
  });
});
