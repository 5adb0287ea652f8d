import { setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Unavailable } from '../errors.ts';
import { List } from './page-index.fixture.ts';
import { PageIndex } from './page-index.ts';
import type { HotelRepository } from './repository.ts';

const turns = async (count = 20) => {
  for (let i = 0; i < count; i++) await Promise.resolve();
};

const positionsOf = (list: List) => new PageIndex(list as unknown as HotelRepository, 0);

/** The id at an offset, by way of the marks; undefined past the end. */
async function idAt(list: List, pageIndex: PageIndex, offset: number): Promise<string | undefined> {
  let located = await pageIndex.locate(offset);
  // after a failure the marks go on being set a timer's tick later
  for (let i = 0; !located && i < 50; i++) {
    await wait(2);
    located = await pageIndex.locate(offset);
  }
  if (!located) throw new Error('the marks are not set');
  return (await list.idsFrom(located.mark, located.skip, 1))[0];
}

async function set(list: List): Promise<PageIndex> {
  const pageIndex = positionsOf(list);
  expect(await pageIndex.locate(0)).toBeUndefined();
  await turns(200);
  expect(await pageIndex.locate(0)).toBeDefined();
  return pageIndex;
}

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `h${String(i).padStart(6, '0')}`);

/** Prefixes whose order differs between bytes, UTF-16 units and languages. */
const prefix = fc.constantFrom(
  '',
  'a',
  'A',
  'b',
  'z',
  'ä',
  'é',
  'e\u0301',
  '中',
  '\uffee',
  '😀',
  '\u{10ffff}',
);
const id = fc.tuple(prefix, fc.integer({ min: 0, max: 400 })).map(([start, n]) => `${start}${n}`);
const offset = fc.integer({ min: 0, max: 5_000 });
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('toggle' as const), id, received: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('look' as const), offset }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('hold' as const), offset }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('let go' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fail' as const), offset }) },
);

describe('positions', () => {
  it('are exact for all that was heard of, whatever came and went and whenever it was heard', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(id, { minLength: 0, maxLength: 3_000, size: 'max' }),
        fc.array(step, { maxLength: 40 }),
        async (ids, steps) => {
          const list = new List(ids);
          const pageIndex = positionsOf(list);
          // happened, but not heard of yet
          const unreceived: string[] = [];
          const receiveAll = () => {
            for (const moved of unreceived.splice(0)) pageIndex.moved(moved);
          };
          for (const step of steps) {
            if (step.do === 'toggle') {
              if (list.has(step.id)) list.remove(step.id);
              else list.insert(step.id);
              unreceived.push(step.id);
              if (step.received) receiveAll();
            } else if (step.do === 'look') {
              list.letGo();
              await turns();
              receiveAll();
              const located = await pageIndex.locate(step.offset);
              if (!located) continue;
              const [found] = await list.idsFrom(located.mark, located.skip, 1);
              expect(found).toBe(list.ids[step.offset]);
            } else if (step.do === 'hold') {
              list.hold();
              void pageIndex.locate(step.offset).catch(() => {});
              await turns();
            } else if (step.do === 'let go') {
              list.letGo();
              await turns();
            } else if (step.do === 'forget') {
              pageIndex.forget();
            } else {
              list.letGo();
              list.fails = true;
              await pageIndex.locate(step.offset).catch((error) => expect(error).toBeInstanceOf(Unavailable));
              await turns();
              list.fails = false;
            }
          }
          list.letGo();
          await turns(200);
          receiveAll();
          if (!(await pageIndex.locate(0))) await turns(200);
          for (const place of [0, 1, 199, 200, 201, 777, list.ids.length - 1, list.ids.length]) {
            if (place >= 0) expect(await idAt(list, pageIndex, place)).toBe(list.ids[place]);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('are found without passing more than a stretch', async () => {
    const list = new List(numbered(60_000));
    const pageIndex = await set(list);
    for (const offset of [0, 199, 200, 30_000, 59_999]) {
      expect((await pageIndex.locate(offset))!.skip).toBeLessThan(200);
      expect(await idAt(list, pageIndex, offset)).toBe(list.ids[offset]);
    }
    expect(await idAt(list, pageIndex, 60_000)).toBeUndefined();
    expect(await idAt(list, pageIndex, Number.MAX_SAFE_INTEGER)).toBeUndefined();
  });

  it('cost no query while nothing moves, and one for all that moved', async () => {
    const list = new List(numbered(10_000));
    const pageIndex = await set(list);
    list.queries = 0;
    for (let i = 0; i < 100; i++) await pageIndex.locate(i * 90);
    expect(list.queries).toBe(0);
    for (const id of ['h000100x', 'h005000x', 'h009000x']) {
      list.insert(id);
      pageIndex.moved(id);
    }
    expect(await Promise.all([pageIndex.locate(9_500), pageIndex.locate(400)])).toHaveLength(2);
    expect(list.queries).toBe(1);
  });

  it('that are asked for while a count is under way wait for it', async () => {
    const list = new List(numbered(1_000));
    const pageIndex = await set(list);
    list.insert('h000000x');
    pageIndex.moved('h000000x');
    list.hold();
    const first = idAt(list, pageIndex, 900);
    const second = idAt(list, pageIndex, 900);
    await turns();
    list.letGo();
    expect([await first, await second]).toEqual([list.ids[900], list.ids[900]]);
  });

  it('are counted anew for what is heard of during a count', async () => {
    const list = new List(numbered(1_000));
    const pageIndex = await set(list);
    list.insert('h000000x');
    pageIndex.moved('h000000x');
    list.hold();
    const before = pageIndex.locate(900);
    await turns();
    list.insert('h000000y');
    pageIndex.moved('h000000y');
    const after = idAt(list, pageIndex, 900);
    list.letGo();
    await before;
    expect(await after).toBe(list.ids[900]);
  });

  it('are answered in the end however fast hotels come and go', async () => {
    const list = new List(numbered(1_000));
    const pageIndex = await set(list);
    const count = list.countBetween.bind(list);
    list.countBetween = async (from, to) => {
      const counts = await count(from, to);
      list.insert(`h0${list.ids.length}x`);
      pageIndex.moved(`h0${list.ids.length}x`);
      return counts;
    };
    pageIndex.moved('h000000');
    list.queries = 0;
    await pageIndex.locate(900);
    expect(list.queries).toBeLessThanOrEqual(2);
  });

  it('are not known while the marks are set, when they were forgotten, and after a failure; later they are', async () => {
    const list = new List(numbered(1_000));
    list.fails = true;
    const pageIndex = positionsOf(list);
    expect(await pageIndex.locate(900)).toBeUndefined();
    await turns();
    list.fails = false;
    expect(await pageIndex.locate(900)).toBeUndefined();
    expect(await idAt(list, pageIndex, 900)).toBe(list.ids[900]);
    pageIndex.forget();
    expect(await pageIndex.locate(900)).toBeUndefined();
    await turns();
    expect(await idAt(list, pageIndex, 900)).toBe(list.ids[900]);
  });

  it('are set anew when more moved than is worth counting', async () => {
    const list = new List(numbered(100_000));
    const pageIndex = await set(list);
    for (let i = 0; i < 100_000; i += 200) pageIndex.moved(list.ids[i]!);
    expect(await pageIndex.locate(99_000)).toBeUndefined();
    await turns(200);
    expect(await idAt(list, pageIndex, 99_000)).toBe(list.ids[99_000]);
  });
});
