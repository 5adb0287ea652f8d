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
