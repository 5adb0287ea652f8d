import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { Unavailable } from '../errors.ts';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Survey } from './id-list.ts';
import { List } from './page-index.fixture.ts';
import { PageIndex } from './page-index.ts';

const LIMIT = 5;
const OWNER = 'key';
const MAX_BYTES = 256 * 1024;

const turns = async (count = 20) => {
  for (let i = 0; i < count; i++) await Promise.resolve();
};

const positionsOf = (list: List, maxBytes = MAX_BYTES) => new PageIndex(list, maxBytes);

/** Returns the present list from an offset. */
const expected = (list: List, offset: number, limit = LIMIT) => ({
  ids: list.all.slice(offset, offset + limit),
  more: list.all.length > offset + limit,
});

/** Reads the pages at these offsets, and compares them with the present list. */
async function expectPages(
  pageIndex: PageIndex,
  list: List,
  offsets: number[],
  limit = LIMIT,
): Promise<void> {
  for (const offset of offsets)
    expect(await pageIndex.page(offset, limit, OWNER)).toMatchObject(expected(list, offset, limit));
}

/** Positions whose segments are all known. */
async function settled(list: List, maxBytes?: number): Promise<PageIndex> {
  const pageIndex = positionsOf(list, maxBytes);
  // a request waits for at most a second, in which a busy machine does not count millions
  for (;;) {
    const page = await pageIndex.page(Number.MAX_SAFE_INTEGER, 1, OWNER).catch((error: unknown) => {
      if (!(error instanceof Unavailable)) throw error;
    });
    if (page) return pageIndex;
  }
}

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `h${String(i).padStart(6, '0')}`);

/** Prefixes whose order differs between bytes, UTF-16 units and languages. */
const prefix = fc.constantFrom(
  ...['', 'a', 'A', 'b', 'z', 'ä', 'é', 'e\u0301', '中', '\uffee', '😀', '\u{10ffff}'],
);
const id = fc.tuple(prefix, fc.integer({ min: 0, max: 400 })).map(([start, n]) => `${start}${n}`);
const step = fc.record({
  does: fc.constantFrom(
    ...(['toggle', 'toggle', 'toggle', 'toggle', 'read', 'read', 'read'] as const),
    ...(['hold', 'let go', 'forget', 'fail'] as const),
  ),
  id,
  isReceived: fc.boolean(),
  offset: fc.integer({ min: 0, max: 5_000 }),
});

it('a count that is answered behind a later one does not replace it', async () => {
  const list = new List(numbered(600));
  const pageIndex = await settled(list);
  list.insert('h000000a');
  pageIndex.moved('h000000a');
  // it counts the segment, and is answered last
  const counts = await list.survey([[null, 'h000200']], 1_000);
  const counted = Promise.withResolvers<Survey[]>();
  const slowly = vi.spyOn(list, 'survey').mockReturnValueOnce(counted.promise);
  const slow = pageIndex.page(500, LIMIT, OWNER);
  await turns();
  expect(slowly).toHaveBeenCalledTimes(1);
  list.insert('h000000b');
  pageIndex.moved('h000000b');
  expect(await pageIndex.page(0, LIMIT, OWNER)).toMatchObject(expected(list, 0));
  counted.resolve(counts);
  await slow;
  expect(await pageIndex.page(500, LIMIT, OWNER)).toMatchObject(expected(list, 500));
});

describe('pages', () => {
  it('are exact after any announced inserts and deletes, whenever they are received', async () => {
    let knownTotals = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(id, { minLength: 0, maxLength: 3_000, size: 'max' }),
        fc.array(step, { maxLength: 40, size: 'max' }),
        fc.constantFrom(0, 20_000, MAX_BYTES),
        async (ids, steps, maxBytes) => {
          const list = new List(ids);
          const pageIndex = positionsOf(list, maxBytes);
          // committed, but not received yet
          const unreceived: string[] = [];
          const receiveAll = () => {
            for (const moved of unreceived.splice(0)) pageIndex.moved(moved);
          };
          for (const { does, id, isReceived, offset } of steps) {
            if (does === 'toggle') {
              if (list.has(id)) list.remove(id);
              else list.insert(id);
              unreceived.push(id);
              if (isReceived) receiveAll();
            } else if (does === 'read') {
              list.letGo();
              await turns();
              receiveAll();
              const held = pageIndex.cachedPage(offset, LIMIT);
              if (held) expect(held).toMatchObject(expected(list, offset));
              await expectPages(pageIndex, list, [offset]);
            } else if (does === 'hold') {
              list.hold();
              pageIndex.page(offset, LIMIT, OWNER).catch(() => {});
              await turns();
            } else if (does === 'let go') {
              list.letGo();
              await turns();
            } else if (does === 'forget') {
              pageIndex.forget();
            } else {
              list.letGo();
              list.fails = true;
              const failed = pageIndex.page(offset, LIMIT, OWNER);
              await failed.catch((error) => expect(error).toBeInstanceOf(Unavailable));
              await turns();
              list.fails = false;
            }
          }
          list.letGo();
          await turns(200);
          receiveAll();
          const ends = [Math.max(0, list.all.length - 1), list.all.length];
          await expectPages(pageIndex, list, [0, 1, 199, 200, 201, 777, ...ends]);
          const { total } = await pageIndex.page(0, LIMIT, OWNER);
          expect([undefined, list.all.length]).toContain(total);
          knownTotals += total === undefined ? 0 : 1;
        },
      ),
      { numRuns: 60 },
    );
    expect(knownTotals).toBeGreaterThan(0);
  });

  it('that are cached need no query', async () => {
    const list = new List(numbered(10_000));
    const pageIndex = await settled(list);
    const offsets = Array.from({ length: 39 }, (_, i) => 100 * i);
    await expectPages(pageIndex, list, [...offsets, 3_900], 100);
    list.queries = 0;
    list.fails = true;
    for (const offset of offsets)
      expect(pageIndex.cachedPage(offset, 100)).toMatchObject(expected(list, offset, 100));
    await expectPages(pageIndex, list, offsets, 100);
    expect(list.queries).toBe(0);
    expect(pageIndex.cachedPage(9_000, 100)).toBeUndefined();
    await expect(pageIndex.page(9_000, LIMIT, OWNER)).rejects.toBeInstanceOf(Unavailable);
  });

  it('are found by queries that pass a bounded number of hotels', async () => {
    const list = new List(numbered(60_000));
    const pageIndex = positionsOf(list);
    const offsets = [500, 0, 199, 200, 30_000, 59_999, 60_000, Number.MAX_SAFE_INTEGER];
    await expectPages(pageIndex, list, offsets, 100);
    expect(list.largestSkip).toBeLessThanOrEqual(20_000);
    list.largestSkip = 0;
    pageIndex.moved('h030000');
    await expectPages(pageIndex, list, [0, 30_000, 59_999], 100);
    expect(list.largestSkip).toBeLessThanOrEqual(1_001);
  });

  it('at small offsets of a forgotten list do not wait until it is divided', async () => {
    const list = new List(numbered(60_000));
    const pageIndex = await settled(list);
    pageIndex.forget();
    const divides = vi.spyOn(list, 'survey').mockReturnValue(new Promise(() => {}));
    for (const offset of [500, 0, 20_000]) {
      const page = pageIndex.page(offset, 100, OWNER);
      expect(await Promise.race([page, turns(100)])).toMatchObject(expected(list, offset, 100));
    }
    expect(divides).toHaveBeenCalledTimes(1);
  });

  it('are found after many inserts into one segment, at once before them and soon behind them', async () => {
    const list = new List(numbered(1_000));
    const pageIndex = await settled(list);
    const came = Array.from({ length: 50_000 }, (_, i) => `h000250-${String(i).padStart(6, '0')}`);
    list.all = [...list.all, ...came].sort();
    for (const id of came) pageIndex.moved(id);
    list.queries = 0;
    list.largestSkip = 0;
    await expectPages(pageIndex, list, [500], 20);
    expect(list.queries).toBeLessThanOrEqual(5);
    await expectPages(pageIndex, list, [50_000, 50_500, 50_999, 25_000], 20);
    expect(list.largestSkip).toBeLessThanOrEqual(20_000);
  });

  it('are answered eventually, however fast hotels are inserted and deleted', async () => {
    const list = new List(numbered(1_000));
    const pageIndex = await settled(list);
    const survey = list.survey.bind(list);
    list.survey = async (ranges, limit) => {
      const counts = await survey(ranges, limit);
      list.insert(`h0${list.all.length}x`);
      pageIndex.moved(`h0${list.all.length}x`);
      return counts;
    };
    pageIndex.moved('h000000');
    list.queries = 0;
    await pageIndex.page(900, LIMIT, OWNER);
    expect(list.queries).toBeLessThanOrEqual(4);
  });

  it('are read by the share of their key, also after the query of another found no room', async () => {
    const list = new List(numbered(1_000));
    const pageIndex = await settled(list);
    pageIndex.moved('h000500');
    const full = new Unavailable('the queue is full', 'postgres_queue');
    vi.spyOn(list, 'ids').mockReturnValueOnce(turns().then(() => Promise.reject(full)));
    const [busy, own, busyToo] = ['busy', OWNER, 'busy'].map((owner) => pageIndex.page(500, LIMIT, owner));
    await expect(busy).rejects.toBe(full);
    await expect(busyToo).rejects.toBe(full);
    expect(await own).toMatchObject(expected(list, 500));
  });

  it('are exact when more segments changed than one query counts', async () => {
    const list = new List(numbered(100_000));
    const pageIndex = await settled(list);
    for (let i = 0; i < 100_000; i += 200) pageIndex.moved(list.all[i]!);
    for (let i = 0; i < 500; i++) list.remove(list.all[i * 190]!);
    for (const id of numbered(100_000)) if (!list.has(id)) pageIndex.moved(id);
    list.queries = 0;
    expect(await pageIndex.page(99_000, LIMIT, OWNER)).toMatchObject(expected(list, 99_000));
    // each counts 50 segments
    expect(list.queries).toBeLessThan(15);
  });
});

it('a page that is read again has no ids that are held, however many were deleted unnoticed', async () => {
  const list = new List(numbered(3_000));
  const pageIndex = await settled(list);
  for (const offset of [0, 1_000, 2_000]) await pageIndex.page(offset, 1_000, OWNER);
  const gone = list.all.splice(0, 400);
  expect((await pageIndex.page(0, 100, OWNER)).ids).toEqual(gone.slice(0, 100));
  for (const id of gone.slice(0, 100)) pageIndex.moved(id);
  expect(await pageIndex.page(0, 100, OWNER, true)).toMatchObject(expected(list, 0, 100));
});

it('a page whose positions become known as its time ends is sent', async () => {
  const list = new List(numbered(1_000));
  const pageIndex = await settled(list);
  await pageIndex.page(500, LIMIT, OWNER);
  pageIndex.moved('h000000');
  const nowMs = monotonicMs();
  const survey = list.survey.bind(list);
  vi.spyOn(list, 'survey').mockImplementationOnce((...of) => {
    showMonotonic(() => nowMs + 5_001);
    return survey(...of);
  });
  expect(await pageIndex.page(500, LIMIT, OWNER)).toMatchObject(expected(list, 500));
});
