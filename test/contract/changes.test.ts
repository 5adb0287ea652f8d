import { describe, expect, it, onTestFinished } from 'vitest';
import { untilApplied } from '../support/log-state.ts';
import { Mirror } from '../support/mirror.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { expectError } from '../support/responses.ts';
import {
  addToCollection,
  changeKey,
  insertCollection,
  insertKey,
  removeFromCollection,
} from '../support/rows.ts';
import { startService } from '../support/service.ts';

const HOTELS = Array.from({ length: 25 }, (_, i) => ({
  id: `h${i}`,
  channel_id: `C${i}`,
  registry_id: 500_000 + i,
}));
const NO_TOKEN = 'after must be a token that this API gave';

const service = await startService({ hotels: HOTELS });

type View = 'full' | 'narrow';

/** Returns all hotels as the list shows them, by id. */
async function listed(key: View = 'full'): Promise<Map<string, { id: string }>> {
  const hotels: { id: string }[] = (await service.get('/hotels?limit=100', { key })).json();
  return new Map(hotels.map((hotel) => [hotel.id, hotel]));
}

/** Returns a mirror that holds everything. */
async function mirror(key: View = 'full', limit = 1000): Promise<Mirror> {
  const copy = new Mirror((path) => service.get(path, { key }), limit);
  await copy.catchUp();
  return copy;
}

describe('the first copy', () => {
  it.each<[View, limit: number]>([
    ['full', 1],
    ['full', 7],
    ['full', 25],
    ['narrow', 1000],
  ])('contains all hotels as a %s key sees them, in pages of %d', async (key, limit) => {
    const copy = await mirror(key, limit);
    expect(copy.hotels).toEqual(await listed(key));
    expect(copy.requests).toBe(Math.ceil(HOTELS.length / limit));
  });

  it('has the hotels byte by byte', async () => {
    const { status, headers, ...answer } = await service.get('/changes');
    expect([status, headers['content-type']]).toEqual([200, 'application/json']);
    const { changes, next, more, ...rest } = answer.json();
    expect([changes.length, rest, more, typeof next]).toEqual([25, {}, false, 'string']);
    const single = await service.get('/hotels/h3');
    expect(answer.text).toContain(`{"id":"h3","hotel":${single.text}}`);
  });
});

it('a page has removals first, so that the channel id of a hotel that is gone is free for another', async () => {
  await service.sql`insert into hotels (id, name, channel_id) values ('leaves', 'Leaves', 'ROOM'), ('takes', 'Takes', null)`;
  const copy = await mirror();
  await expect.poll(() => copy.catchUp().then(() => copy.hotels.has('leaves'))).toBe(true);
  await service.sql.begin(async (sql) => {
    await sql`update hotels set name = 'renamed' where id = 'h1'`;
    await sql`update hotels set channel_id = null where id = 'leaves'`;
    await sql`update hotels set channel_id = 'ROOM' where id = 'takes'`;
    await sql`delete from hotels where id = 'leaves'`;
  });
  const pages: { id: string; hotel: unknown }[][] = [];
  while (copy.hotels.has('leaves')) pages.push((await copy.requestPage(1)).changes);
  const [first, ...others] = pages.at(-1)!;
  expect(first).toEqual({ id: 'leaves', hotel: null });
  expect(others.map(({ id }) => id).sort()).toEqual(['h1', 'takes']);
});

it('a response links to the next page, as its body does', async () => {
  const response = await service.get('/changes?limit=7&wait=0');
  const link = /^<([^>]+)>; rel="next"$/.exec(String(response.headers.link))![1]!;
  expect(link[0]).toBe('?');
  const next = new URL(link, `${service.url}/changes`);
  expect(next.pathname).toBe('/changes');
  expect(Object.fromEntries(next.searchParams)).toEqual({
    after: response.json().next,
    limit: '7',
    wait: '0',
  });
  expect((await service.get(next.pathname + next.search)).json().changes).toHaveLength(7);
});

describe('an invalid request is rejected:', () => {
  it.each([
    ['limit', 'limit must be an integer from 1 to 1000', ['0', '1001', '-1', '1.5', '', 'x', '1e2', '%zz']],
    ['wait', 'wait must be an integer from 0 to 30', ['31', '-1', '1.5', '', 'x', '%zz']],
    ['after', NO_TOKEN, ['', '0', 'x', 'null', '%25zz', '%F0%9F%98%80', 'A'.repeat(40)]],
  ])('%s', async (name, sentence, values) => {
    for (const value of values) expectError(await service.get(`/changes?${name}=${value}`), 400, sentence);
  });

  it('a token changed at any place', async () => {
    const { next } = (await service.get('/changes')).json();
    for (let i = 0; i < next.length; i++) {
      const changed = next.slice(0, i) + (next[i] === 'A' ? 'B' : 'A') + next.slice(i + 1);
      expect((await service.get(`/changes?after=${changed}`)).json()).toEqual({ error: NO_TOKEN });
    }
    for (const cut of [next.slice(1), next.slice(0, -1), `${next}A`])
      expect((await service.get(`/changes?after=${cut}`)).status).toBe(400);
  });

  it('but repeated and unknown parameters are ignored', async () => {
    const { changes } = (await service.get('/changes?limit=1&limit=x&wait=0&since=yesterday')).json();
    expect(changes).toHaveLength(1);
  });
});

const waiting = () => service.metric('hotel_api_changes_waiting');

/** Returns a key that sees no hotel and no change, because its collection does not exist, and its place. */
async function blindKey(): Promise<{ key: string; next: string }> {
  const key = await insertKey(service.sql, [], 'nowhere');
  await untilApplied(service);
  return { key, next: (await service.get('/changes', { key })).json().next };
}

/**
 * Sends a request that waits for what never comes. It began before those that begin later, so its time ends before theirs: what
 * is answered while this one still waits was woken.
 */
async function startBystander(): Promise<RawConnection> {
  const { key, next } = await blindKey();
  const connection = new RawConnection(service.port);
  onTestFinished(() => connection.close());
  await connection.write(
    `GET /changes?wait=30&after=${next} HTTP/1.1\r\nhost: a\r\nx-api-key: ${key}\r\n\r\n`,
  );
  await expect.poll(waiting).toBe(1);
  return connection;
}

/** Fails unless the bystander still waits; ends its request. */
async function expectWaiting(bystander: RawConnection): Promise<void> {
  expect([bystander.unread, bystander.isClosed]).toEqual(['', false]);
  bystander.close();
  await expect.poll(waiting).toBe(0);
}

it('a wait ends at once if there are changes, with an empty response if nothing changes, and with its client', async () => {
  expect((await service.get('/changes?wait=30')).json().changes.length).toBeGreaterThan(0);
  const { key, next } = await blindKey();
  const { changes, more } = (await service.get(`/changes?wait=1&after=${next}`, { key })).json();
  expect([changes, more]).toEqual([[], false]);
  const aborted = () => service.metric('hotel_api_requests_aborted_total');
  const before = await aborted();
  await expectWaiting(await startBystander());
  await expect.poll(aborted).toBe(before + 1);
});

it('a token that is up to date is answered without a query', async () => {
  const copy = await mirror();
  const queries = () =>
    service.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'postgres' });
  let [before, after] = [0, 1];
  // until earlier changes are announced
  for (let round = 0; round < 50 && before !== after; round++) {
    before = await queries();
    for (let i = 0; i < 20; i++) await copy.requestPage();
    after = await queries();
  }
  expect(after).toBe(before);
});

describe('a request that waits is woken by a change of what its key may see:', () => {
  /** Returns the response to a request that waits while `change` is made. Fails if it ends only when its time is over. */
  async function awaited(
    { scopes = [], collection = null }: { scopes?: string[]; collection?: string | null },
    change: (key: string) => Promise<unknown>,
  ) {
    await service.sql`delete from collections`;
    await insertCollection(service.sql, 'some', ['h1', 'h2']);
    const key = await insertKey(service.sql, scopes, collection);
    const bystander = await startBystander();
    const { next } = (await service.get('/changes?limit=1000', { key })).json();
    const answer = service.get(`/changes?limit=1000&wait=30&after=${next}`, { key });
    await expect.poll(waiting).toBe(2);
    // this wakes it, and it goes on
    await insertKey(service.sql, []);
    await change(key);
    const response = await answer;
    await expectWaiting(bystander);
    return response;
  }

  it.each<[what: string, change: Record<string, unknown>, status: number]>([
    ['its end', { revoked_at: new Date() }, 401],
    ['its expiry', { expires_at: new Date() }, 401],
    ['another collection', { collection_id: 'some' }, 410],
  ])('%s', async (_, change, status) => {
    const response = await awaited({}, (key) => changeKey(service.sql, key, change));
    expect(response.status).toBe(status);
  });

  it.each<[what: string, before: string[], after: string[], view: 'full' | 'narrow']>([
    ['a scope that is gained', [], ['registry'], 'full'],
    ['a scope that is lost', ['registry'], [], 'narrow'],
  ])('%s: all hotels come again', async (_, before, scopes, view) => {
    const response = await awaited({ scopes: before }, (key) => changeKey(service.sql, key, { scopes }));
    const hotels = response.json().changes.map(({ hotel }: { hotel: unknown }) => hotel);
    expect(hotels).toEqual([...(await listed(view)).values()]);
  });

  it.each<[what: string, change: () => Promise<unknown>, expected: object]>([
    ['a new member', () => addToCollection(service.sql, 'some', ['h3']), { id: 'h3', hotel: { id: 'h3' } }],
    ['a lost member', () => removeFromCollection(service.sql, 'some', ['h1']), { id: 'h1', hotel: null }],
    [
      'a member that changes',
      () => service.sql`update hotels set name = 'waited for' where id in ('h2', 'h4')`,
      { id: 'h2', hotel: { name: 'waited for' } },
    ],
  ])('%s', async (_, change, expected) => {
    const { changes, more } = (await awaited({ collection: 'some' }, change)).json();
    expect([changes, more]).toMatchObject([[expected], false]);
  });
});

it('a copy passes the longest ids of hotels and of a collection', async () => {
  const ids = ['x', '😀'].map((character) => character.repeat(255));
  await service.sql`insert into hotels (id, name) select id, 'Long' from unnest(${ids}::text[]) as id`;
  await insertCollection(service.sql, ids[1]!, ids);
  const key = await insertKey(service.sql, [], ids[1]!);
  const copy = new Mirror((path) => service.get(path, { key }), 1);
  await copy.catchUp();
  expect([...copy.hotels.keys()].sort()).toEqual(ids);
});
