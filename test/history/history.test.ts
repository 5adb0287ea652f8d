import { describe, expect, it } from 'vitest';
import { Bounds } from './bounds.ts';
import { historyOf, hotel, snapshot } from './history.fixture.ts';
import { History } from './history.ts';
import { Overload } from './overload.ts';

describe('a history', () => {
  const [old, young] = [snapshot([hotel('old')]), snapshot([hotel('new')])];
  const names = (history: History, fromMs: number, untilMs: number) =>
    history.possible('hotel:h1', fromMs, untilMs).map((value) => JSON.parse(value)?.[1] ?? null);

  it('holds both values after a commit whose end is unknown, until the database is read', () => {
    const history = new History(old);
    history.plan(history.changesTo(young), 1_000);
    expect(names(history, 500, 999)).toEqual(['old']);
    expect(names(history, 2_000, 2_000)).toEqual(['old', 'new']);
    history.resync(young, 1_000, 3_000);
    expect(names(history, 3_500, 3_500)).toEqual(['new']);
  });

  it('drops a commit that was rejected', () => {
    const history = new History(old);
    history.cancel(history.plan(history.changesTo(young), 1_000));
    expect(names(history, 2_000, 2_000)).toEqual(['old']);
  });

  it('goes back with the database, without the lost values', () => {
    const history = historyOf(old, [1_000, young]);
    history.resync(old, 2_000, 3_000);
    expect(names(history, 1_500, 1_900)).toEqual(['new']);
    expect(names(history, 2_500, 2_500)).toEqual(['new', 'old']);
    expect(names(history, 3_500, 3_500)).toEqual(['old']);
  });

  it('lets a copy of a key expire although its expiry was lifted before', () => {
    const expiresAtMs = Date.now() + 1_000;
    const history = new History(new Map([['key:k', { value: '"full"', expiresAtMs }]]));
    const nowMs = performance.now();
    history.confirm(history.plan(new Map([['key:k', { value: '"full"' }]]), nowMs), nowMs);
    expect(history.possible('key:k', nowMs - 500, nowMs + 2_000)).toContain('null');
    expect(history.possible('key:k', nowMs + 500, nowMs + 2_000)).toEqual(['"full"']);
  });

  it('expires a key', () => {
    const expiresAtMs = Date.now() + 1_000;
    const history = new History(new Map([['key:k', { value: '"full"', expiresAtMs }]]));
    const nowMs = performance.now();
    expect(history.possible('key:k', nowMs, nowMs)).toEqual(['"full"']);
    expect(history.possible('key:k', nowMs + 2_000, nowMs + 2_000)).toEqual(['null']);
  });
});

describe('bounds', () => {
  it('reach back one second without faults, and five around a fault', () => {
    const bounds = new Bounds();
    const fault = bounds.begin('fault', false, 100_000);
    expect(bounds.reachOf(99_999)).toBe(98_999);
    expect(bounds.reachOf(101_000)).toBe(99_000);
    expect(bounds.reachOf(120_000)).toBe(115_000);
    fault.untilMs = 121_000;
    expect(bounds.reachOf(126_000)).toBe(121_000);
    expect(bounds.reachOf(126_001)).toBe(125_001);
  });

  it('reach to the beginning while PostgreSQL is unreachable, also through a second fault', () => {
    const bounds = new Bounds();
    const first = bounds.begin('first', true, 100_000);
    first.untilMs = 150_000;
    expect(bounds.reachOf(155_000)).toBe(99_000);
    const second = bounds.begin('second', true, 152_000);
    second.untilMs = 160_000;
    expect(bounds.reachOf(165_000)).toBe(99_000);
    expect(bounds.reachOf(165_001)).toBe(164_001);
  });

  it('do not count stalls of the machine', () => {
    const bounds = new Bounds();
    bounds.slow('Redis was slow', 100_000, 100_400);
    bounds.slow('PostgreSQL was slow', 100_200, 100_600);
    expect(bounds.reachOf(102_000)).toBe(98_400);
    expect(bounds.reachOf(110_000)).toBe(109_000);
  });
});

describe('a machine is overloaded', () => {
  it('for half a minute after stalls of a tenth of that, not after single ones', () => {
    const overload = new Overload();
    for (let at = 0; at < 10; at++) overload.stalled(10_000 + 1_000 * at, 10_250 + 1_000 * at);
    expect(overload.isAt(20_000)).toBe(false);
    overload.stalled(20_000, 21_000);
    expect(overload.isAt(21_000)).toBe(true);
    expect(overload.isAt(39_000)).toBe(true);
    expect(overload.isAt(52_000)).toBe(false);
  });
});
