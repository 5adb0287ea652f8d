import { describe, expect, it } from 'vitest';
import { type Hotel, historyOf, hotel, snapshot } from './history.fixture.ts';
import { type Exchange, findViolation, type ReadRequest } from './violations.ts';

const exchange = (
  request: ReadRequest,
  status: number,
  body: unknown,
  more: Partial<Exchange> = {},
): Exchange => ({
  request,
  key: 'full',
  sentMs: 10_000,
  receivedMs: 10_020,
  status,
  body: JSON.stringify(body),
  ...more,
});
const single: ReadRequest = { by: 'hotel', id: 'h1' };
const wrong = (sentence: RegExp, subject = 'hotel:h1') => ({
  sentence: expect.stringMatching(sentence),
  subject,
});

describe('a response with a hotel', () => {
  const history = historyOf(snapshot([hotel('old')]), [8_000, snapshot([hotel('new')])]);
  const shown = (name: string, reachMs: number) =>
    findViolation(history, reachMs, exchange(single, 200, hotel(name)));

  it('is right if it was committed between the reach and the receipt', () => {
    expect(shown('new', 9_000)).toBeUndefined();
    expect(shown('old', 7_000)).toBeUndefined();
  });

  it('is right with the old or new value while a commit is unacknowledged', () => {
    expect(shown('old', 8_005)).toBeUndefined();
    expect(
      findViolation(history, 7_000, exchange(single, 200, hotel('new'), { receivedMs: 8_001 })),
    ).toBeUndefined();
  });

  it('is wrong if it was outdated before', () => {
    expect(shown('old', 8_011)).toEqual(wrong(/not true/));
  });

  it('is wrong if it is from the future, or was never committed', () => {
    expect(findViolation(history, 7_000, exchange(single, 200, hotel('new'), { receivedMs: 7_990 }))).toEqual(
      wrong(/not true/),
    );
    expect(shown('never', 0)).toEqual(wrong(/not true/));
  });

  it('is wrong if a field has another version than the rest', () => {
    expect(findViolation(history, 0, exchange(single, 200, hotel('new', { description: 'torn' })))).toEqual(
      wrong(/not true/),
    );
  });

  it('is wrong as 404 while the hotel exists, and right if it may have been deleted', () => {
    expect(findViolation(history, 0, exchange(single, 404, {}))).toEqual(wrong(/no such hotel/));
    const gone = historyOf(snapshot([hotel('old')]), [8_000, snapshot([])]);
    expect(findViolation(gone, 9_000, exchange(single, 404, {}))).toBeUndefined();
    expect(findViolation(gone, 9_000, exchange(single, 200, hotel('old')))).toEqual(wrong(/not true/));
  });

  it('is compared by the requested id', () => {
    const moved = historyOf(snapshot([hotel('a')]), [8_000, snapshot([hotel('a', { channel_id: 'C2' })])]);
    const by = (id: string, body: Hotel) =>
      findViolation(moved, 9_000, exchange({ by: 'channel', id }, 200, body));
    expect(by('C2', hotel('a', { channel_id: 'C2' }))).toBeUndefined();
    expect(by('C1', hotel('a'))).toEqual(wrong(/not true/, 'channel:C1'));
    expect(by('C1', hotel('a', { channel_id: 'C2' }))).toEqual(wrong(/not true/, 'channel:C1'));
  });
});

describe('a list', () => {
  const two = hotel('b', { id: 'h2', channel_id: 'C2', registry_id: 8 });
  const history = historyOf(snapshot([hotel('a'), two]));
  const list = (...hotels: Hotel[]) => findViolation(history, 9_000, exchange({ by: 'list' }, 200, hotels));
  const batch = (...hotels: Hotel[]) =>
    findViolation(history, 9_000, exchange({ by: 'channels', ids: ['C2', 'C1', 'C3'] }, 200, hotels));

  it('is right with all hotels in their order', () => {
    expect(list(hotel('a'), two)).toBeUndefined();
    expect(batch(two, hotel('a'))).toBeUndefined();
  });

  it('is wrong if a hotel is missing, twice, unknown or out of order', () => {
    expect(list(two)).toEqual(wrong(/no such hotel/));
    expect(list(hotel('a'), hotel('a'), two)).toEqual(wrong(/twice/));
    expect(list(hotel('a'), two, hotel('c', { id: 'h3' }))).toEqual(wrong(/not true/, 'hotel:h3'));
    expect(list(two, hotel('a'))).toEqual(wrong(/out of order/));
    expect(batch(two)).toEqual(wrong(/no such hotel/, 'channel:C1'));
    expect(batch(hotel('a'), two)).toEqual(wrong(/out of order/, 'channel:C2'));
    expect(batch(two, hotel('a', { channel_id: 'C9' }))).toEqual(wrong(/not requested/, 'channel:C2'));
  });
});

describe('a key', () => {
  const before = { full: 'full', narrow: 'narrow', gone: 'full' } as const;
  const history = historyOf(snapshot([hotel('a')], before), [
    8_000,
    snapshot([hotel('a')], { full: 'full', narrow: 'narrow' }),
  ]);
  const as = (
    key: string,
    request: ReadRequest,
    status: number,
    reachMs = 9_000,
    body: object = hotel('a'),
  ) => findViolation(history, reachMs, exchange(request, status, body, { key }));
  const byRegistry: ReadRequest = { by: 'registry', id: '7' };
  const narrowed = hotel('a', { registry_id: null });

  it('may be accepted until its revocation is in force, and not afterwards', () => {
    expect(as('gone', single, 200, 7_500)).toBeUndefined();
    expect(as('gone', single, 401)).toBeUndefined();
    expect(as('gone', single, 200)).toEqual(wrong(/not valid/, 'key:gone'));
    expect(as('gone', single, 404)).toEqual(wrong(/not valid/, 'key:gone'));
  });

  it('must be accepted while it is valid, and an unknown one rejected', () => {
    expect(as('full', single, 401)).toEqual(wrong(/401/, 'key:full'));
    expect(as('unknown', single, 401)).toBeUndefined();
    expect(as('unknown', single, 200)).toEqual(wrong(/not valid/, 'key:unknown'));
  });

  it('without the scope sees no registry id and must not request by it', () => {
    expect(as('narrow', single, 200, 9_000, narrowed)).toBeUndefined();
    expect(as('narrow', single, 200)).toEqual(wrong(/not true/));
    expect(as('full', single, 200, 9_000, narrowed)).toEqual(wrong(/not true/));
    expect(as('narrow', byRegistry, 403)).toBeUndefined();
    expect(as('narrow', byRegistry, 200)).toEqual(wrong(/not valid/, 'key:narrow'));
    expect(as('full', byRegistry, 403)).toEqual(wrong(/403/, 'key:full'));
  });
});

describe('other responses', () => {
  const history = historyOf(snapshot([hotel('a')]));
  it('503 is always right', () => {
    expect(findViolation(history, 9_000, exchange(single, 503, {}))).toBeUndefined();
  });
  it('500 and an unreadable body are always wrong', () => {
    expect(findViolation(history, 9_000, exchange(single, 500, {}))).toEqual(wrong(/status 500/, 'key:full'));
    expect(findViolation(history, 9_000, { ...exchange(single, 200, {}), body: '{' })).toEqual(
      wrong(/no hotel/),
    );
    expect(findViolation(history, 9_000, exchange({ by: 'list' }, 200, {}))).toEqual(wrong(/no list/));
  });
});
