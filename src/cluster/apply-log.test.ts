import { beforeEach, describe, expect, it } from 'vitest';
import { systemMs } from '../lib/clock.ts';
import { Freshness } from '../log/freshness.ts';
import type { LogRow } from '../log/row.ts';
import { Window } from '../log/window.ts';
import type { LogKind } from '../postgres/log-kinds.ts';
import { LogApplier } from './apply-log.ts';

/** What was called, in order, as `part.method` and its arguments. */
let calls: unknown[][];
let window: Window;
let freshness: Freshness;
let applied: { history: string; position: number };
let applier: LogApplier;

/** Returns a part that records its calls. */
const recorded = (part: string) =>
  new Proxy(
    {},
    {
      get:
        (_, method) =>
        (...values: unknown[]) =>
          void calls.push([`${part}.${String(method)}`, ...values]),
    },
  );

function applierWith(optional: boolean): LogApplier {
  const rest = ['pageIndex', 'collections', 'apiKeys', 'logPositions'].map((part) => [part, recorded(part)]);
  const optionalParts = ['local', 'redisHotels', 'redisKeys'].map((part) => [
    part,
    optional ? recorded(part) : undefined,
  ]);
  return new LogApplier(
    {
      window,
      freshness,
      reader: { loader: recorded('loader') },
      ...Object.fromEntries([...rest, ...optionalParts]),
    } as never,
    applied,
  );
}

beforeEach(() => {
  calls = [];
  window = new Window();
  window.beginHistory(0);
  freshness = new Freshness(() => false);
  applied = { history: 'first', position: 10 };
  applier = applierWith(true);
});

const PLACE = { position: 20, transaction: '7' };
const rowOf = (kind: LogKind, fields: Partial<LogRow> = {}): LogRow => ({
  position: 20,
  kind,
  moves: false,
  ids: [],
  channelIds: [],
  registryIds: [],
  collection: null,
  ...fields,
});
/** Applies a row; returns what it caused besides its place. */
function causedBy(kind: LogKind, fields: Partial<LogRow> = {}): unknown[][] {
  applier.apply({ rows: [rowOf(kind, fields)], place: undefined, isBusy: false, asOfMs: undefined });
  return calls.splice(0);
}

const HOTELS = { ids: ['a', 'b'], channelIds: ['C', null], registryIds: [null, '7'] };
const CHANGED = [
  ['loader.forget', 'id', 'a'],
  ['local.drop', 'id', 'a'],
  ['loader.forget', 'channel', 'C'],
  ['local.drop', 'channel', 'C'],
  ['collections.hotelChanged', 'a', 'C', null],
  ['loader.forget', 'id', 'b'],
  ['local.drop', 'id', 'b'],
  ['loader.forget', 'registry', '7'],
  ['local.drop', 'registry', '7'],
  ['collections.hotelChanged', 'b', null, '7'],
];

describe('a row of the log reaches the caches that it concerns:', () => {
  it('changed hotels', () => {
    expect(causedBy('hotels', HOTELS)).toEqual(CHANGED);
    for (const [namespace, key] of [
      ['id', 'a'],
      ['channel', 'C'],
      ['registry', '7'],
    ] as const)
      expect([19, 20].map((label) => window.covers(namespace, key, label))).toEqual([false, true]);
  });

  it('created and deleted hotels, which move the positions of lists', () => {
    expect(causedBy('hotels', { ...HOTELS, moves: true })).toEqual([
      ...CHANGED.slice(0, 5),
      ['pageIndex.moved', 'a'],
      ['collections.hotelMoved', 'a'],
      ...CHANGED.slice(5),
      ['pageIndex.moved', 'b'],
      ['collections.hotelMoved', 'b'],
    ]);
  });

  it('deleted hotels, which have no other ids', () => {
    expect(causedBy('hotels', { ids: ['a'] })).toEqual([
      ['loader.forget', 'id', 'a'],
      ['local.drop', 'id', 'a'],
      ['collections.hotelChanged', 'a', null, null],
    ]);
  });

  it('keys', () => {
    expect(causedBy('keys', { ids: ['k1', 'k2'] })).toEqual([
      ['apiKeys.changed', 'k1'],
      ['apiKeys.changed', 'k2'],
      ['logPositions.keysChanged'],
    ]);
    expect([19, 20].map((label) => window.covers('key', 'k2', label))).toEqual([false, true]);
  });

  it('members of a collection', () => {
    expect(causedBy('members', { ids: ['a', 'b'], collection: 'c' })).toEqual([
      ['collections.changed', 'c', ['a', 'b']],
    ]);
  });

  it('collections', () => {
    expect(causedBy('collections', { ids: ['c', 'd'] })).toEqual([
      ['collections.changed', 'c', null],
      ['collections.changed', 'd', null],
    ]);
  });

  it.each<[LogKind, unknown[][]]>([
    ['all_hotels', [['loader.forgetAll'], ['local.clear'], ['collections.forget'], ['pageIndex.forget']]],
    ['all_keys', [['apiKeys.clear'], ['logPositions.keysChanged']]],
    ['all_collections', [['collections.forget']]],
  ])('anything: %s', (kind, caused) => {
    expect(causedBy(kind)).toEqual(caused);
    expect(window.floor).toBe(20);
  });
});

describe('news', () => {
  it('are applied before their place and time are known', () => {
    const asOfMs = systemMs() - 60_000;
    const rows = [rowOf('keys', { position: 15, ids: ['k'] }), rowOf('collections', { ids: ['c'] })];
    applier.apply({ rows, place: PLACE, isBusy: true, asOfMs });
    expect(calls).toEqual([
      ['apiKeys.changed', 'k'],
      ['logPositions.keysChanged'],
      ['collections.changed', 'c', null],
      ['logPositions.announced', PLACE, true],
    ]);
    expect(applier.applied).toEqual({ history: 'first', position: 20 });
    expect(freshness.asOfMs).toBeGreaterThan(-Infinity);
  });

  it('of which more are to come are not announced, and do not make the worker current', () => {
    applier.apply({
      rows: [rowOf('keys', { ids: ['k'] })],
      place: undefined,
      isBusy: false,
      asOfMs: undefined,
    });
    // a replica that lacks the row is behind already
    expect(applier.applied.position).toBe(20);
    expect(freshness.asOfMs).toBe(-Infinity);
    expect(calls.flat()).not.toContain('logPositions.announced');
  });
});

it('learned rows outdate labels only: what a worker holds has been read since', () => {
  window.beginHistory(100);
  applier.learn([rowOf('hotels', { ...HOTELS, position: 70 })], 60);
  expect(calls).toEqual([]);
  expect([window.floor, window.covers('id', 'a', 69), window.covers('id', 'a', 70)]).toEqual([
    60,
    false,
    true,
  ]);
  expect(applier.applied.position).toBe(10);
});

it('a worker starts with what the primary process knows', () => {
  const known = new Window();
  known.beginHistory(50);
  known.raise('id', 'a', 55);
  applier.start({
    ...{ history: 'second', ...PLACE, prefix: 'p', secret: new Uint8Array(32), isBusy: true },
    asOfMs: systemMs() - 60_000,
    window: known.copy(),
  });
  expect(applier.applied).toEqual({ history: 'second', position: 20 });
  expect(window.floor).toBe(50);
  expect(window.covers('id', 'a', 54)).toBe(false);
  expect(calls).toEqual([
    ['redisHotels.usePrefix', 'p'],
    ['redisKeys.usePrefix', 'p'],
    ['logPositions.follow', 'second'],
    ['logPositions.announced', PLACE, true],
  ]);
  expect(freshness.asOfMs).toBeGreaterThan(-Infinity);
});

it('another history makes everything that is cached invalid', () => {
  freshness.current(1);
  window.raise('id', 'a', 900);
  applier.begin('second', 30, 'p');
  expect(calls.toSorted()).toEqual(
    [
      ['loader.forgetAll'],
      ['local.clear'],
      ['collections.forget'],
      ['pageIndex.forget'],
      ['apiKeys.clear'],
      ['redisHotels.usePrefix', 'p'],
      ['redisKeys.usePrefix', 'p'],
      ['logPositions.follow', 'second'],
    ].toSorted(),
  );
  expect(applier.applied).toEqual({ history: 'second', position: 30 });
  expect([freshness.asOfMs, window.floor, window.covers('id', 'a', 30)]).toEqual([-Infinity, 30, true]);
});

it('a restart of the server drops what was read at later positions than the applied one', () => {
  applier.serverRestarted('p');
  expect(calls).toEqual([
    ['local.dropIfAfter', 10],
    ['apiKeys.dropAfter', 10],
    ['collections.forget'],
    ['redisHotels.usePrefix', 'p'],
    ['redisKeys.usePrefix', 'p'],
  ]);
});

it('a worker without a local cache and without Redis follows the log too', () => {
  applier = applierWith(false);
  expect(causedBy('hotels', HOTELS)).toEqual(CHANGED.filter(([call]) => !String(call).startsWith('local')));
  applier.begin('second', 30, 'p');
  applier.serverRestarted('q');
  expect(calls.flat().filter((call) => /^(local|redis)/.test(String(call)))).toEqual([]);
});
