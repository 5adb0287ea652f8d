import { hash } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { readToken, writeToken } from '../../src/changes/token.ts';
import { Mirror } from '../support/mirror.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { comparableHeaders, expectError } from '../support/responses.ts';
import { insertKey } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

const HOTELS = Array.from({ length: 25 }, (_, i) => ({
  id: `h${i}`,
  channel_id: `C${i}`,
  registry_id: 500_000 + i,
}));
const NO_TOKEN = 'after must be a token that this API gave';
const EXPIRED = 'The token has expired: begin again without after';

let service: Service;

beforeAll(async () => {
  service = await startService({ hotels: HOTELS });
});

/** Returns all hotels as the list shows them, by id. */
async function listed(key: 'full' | 'narrow' = 'full'): Promise<Map<string, unknown>> {
  const all = new Map<string, unknown>();
  for (let offset = 0; ; offset += 100) {
    const hotels = (await service.get(`/hotels?limit=100&offset=${offset}`, { key })).json();
    for (const hotel of hotels) all.set(hotel.id, hotel);
    if (hotels.length < 100) return all;
  }
}

/** Returns a mirror that holds everything. */
async function mirror(key: 'full' | 'narrow' = 'full', limit = 1000): Promise<Mirror> {
  const copy = new Mirror((path) => service.get(path, { key }), limit);
  await copy.catchUp();
  return copy;
}

/** Updates a mirror until it holds the expected state, because a change is announced after a moment. */
async function untilMirror(copy: Mirror, isSo: (copy: Mirror) => boolean): Promise<void> {
  await expect.poll(() => copy.catchUp().then(() => isSo(copy))).toBe(true);
}

describe('the first copy', () => {
  it('contains all hotels, in as many responses as necessary', async () => {
    for (const limit of [1, 7, 25, 1000]) {
      const copy = await mirror('full', limit);
      expect(copy.hotels).toEqual(await listed());
      expect(copy.requests).toBe(Math.ceil(HOTELS.length / limit));
    }
  });

  it('has 100 changes a page by default, and 21 fields a hotel', async () => {
    const { status, headers, ...answer } = await service.get('/changes');
    expect([status, headers['content-type']]).toEqual([200, 'application/json']);
    const { changes, next, more, ...rest } = answer.json();
    expect([rest, more, typeof next]).toEqual([{}, false, 'string']);
    expect(changes).toHaveLength(25);
    for (const change of changes) {
      expect(Object.keys(change)).toEqual(['id', 'hotel']);
      expect(Object.keys(change.hotel)).toHaveLength(21);
    }
    const single = await service.get('/hotels/h3');
    expect(answer.text).toContain(`{"id":"h3","hotel":${single.text}}`);
  });

  it('contains no registry id for a key without the scope', async () => {
    const copy = await mirror('narrow');
    expect(copy.hotels).toEqual(await listed('narrow'));
    expect([...copy.hotels.values()].every((hotel) => hotel.registry_id === null)).toBe(true);
  });
});

describe('the feed', () => {
  it('reports an insert, an update, a new id and a deletion, and nothing else', async () => {
    const copy = await mirror();
    await service.sql`insert into hotels (id, name) values ('new', 'New'), ('gone', 'Gone')`;
    await untilMirror(copy, ({ hotels }) => hotels.has('new') && hotels.has('gone'));
    await service.sql`update hotels set name = 'Newer' where id = 'new'`;
    await untilMirror(copy, ({ hotels }) => hotels.get('new')?.name === 'Newer');
    await service.sql`update hotels set id = 'renamed' where id = 'new'`;
    await untilMirror(copy, ({ hotels }) => hotels.has('renamed') && !hotels.has('new'));
    await service.sql`delete from hotels where id = 'gone'`;
    await untilMirror(copy, ({ hotels }) => !hotels.has('gone'));
    expect(copy.hotels).toEqual(await listed());
    expect([...copy.announced].sort()).toEqual(
      [...HOTELS.map(({ id }) => id), 'gone', 'new', 'renamed'].sort(),
    );
    expect((await copy.requestPage()).changes).toEqual([]);
  });

  it('is paged, and reports each hotel once, in its present state', async () => {
    const copy = await mirror('full', 7);
    await service.sql`update hotels set room_count = 1 where id like 'h%'`;
    await service.sql`update hotels set room_count = 2 where id like 'h%'`;
    await untilMirror(copy, ({ hotels }) => hotels.get('h1')?.room_count === 2);
    expect(copy.hotels).toEqual(await listed());
    // a client that began before, and continues when all changes are announced
    const late = new Mirror((path) => service.get(path), 7);
    late.next = copy.tokens[3]!;
    const ids: string[] = [];
    while (late.more) ids.push(...(await late.requestPage()).changes.map(({ id }) => id));
    expect(ids.length).toBeGreaterThanOrEqual(25);
    expect(new Set(ids.slice(-25)).size).toBe(25);
  });

  it('reports removals first, so that the channel id of a hotel that is gone is free for another', async () => {
    await service.sql`insert into hotels (id, name, channel_id) values ('leaves', 'Leaves', 'ROOM'), ('takes', 'Takes', null)`;
    const copy = await mirror();
    await untilMirror(copy, ({ hotels }) => hotels.has('leaves'));
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

  it('restarts with all hotels when the scope of a key is granted or withdrawn', async () => {
    const copy = await mirror('full', 7);
    await service.sql`insert into hotels (id, name) values ('passing', 'Passing')`;
    await untilMirror(copy, ({ hotels }) => hotels.has('passing'));
    await service.sql`delete from hotels where id = 'passing'`;
    await expect.poll(async () => (await service.get('/hotels/passing')).status).toBe(404);
    copy.get = (path) => service.get(path, { key: 'narrow' });
    await copy.catchUp();
    await untilMirror(copy, ({ hotels }) => !hotels.has('passing'));
    expect(copy.hotels).toEqual(await listed('narrow'));
  });
});

describe('a response', () => {
  it('links to the next page, as its body does', async () => {
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

  it('has the headers of all operations, is 304 for a current tag, compressed on request, and empty for HEAD', async () => {
    const { next } = (await service.get('/changes')).json();
    for (const path of ['/changes', `/changes?after=${next}`]) {
      const get = await service.get(path, { headers: { 'x-request-id': 'of-mine' } });
      expect(get.headers).toMatchObject({
        'x-request-id': 'of-mine',
        'cache-control': 'private, no-cache',
        vary: 'accept-encoding, x-api-key',
        etag: expect.stringMatching(/^"[\w-]+"$/),
      });
      const same = await service.get(path, { headers: { 'if-none-match': get.headers.etag! } });
      expect([same.status, same.text, same.headers['content-type']]).toEqual([304, '', undefined]);
      const head = await service.get(path, { method: 'HEAD' });
      expect([head.status, head.text]).toEqual([200, '']);
      expect(comparableHeaders(head)).toEqual(comparableHeaders(get));
    }
    const packed = await service.get('/changes', { headers: { 'accept-encoding': 'gzip' } });
    expect([packed.status, packed.headers['content-encoding']]).toEqual([200, 'gzip']);
  });
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

  it('a forged token with an id that no hotel can have', async () => {
    const { next } = (await service.get('/changes?limit=1')).json();
    const fields = JSON.parse(Buffer.from(next.slice(8), 'base64url').toString());
    fields[5] = 'a\0';
    const text = Buffer.from(JSON.stringify(fields)).toString('base64url');
    const checksum = hash('sha256', `change token ${text}`, 'base64url').slice(0, 8);
    expectError(await service.get(`/changes?after=${checksum}${text}`), 400, NO_TOKEN);
  });

  it('but the largest and smallest values are accepted, and unknown parameters ignored', async () => {
    expect((await service.get('/changes?limit=1000&wait=0&since=yesterday')).status).toBe(200);
    expect((await service.get('/changes?limit=1&limit=x')).json().changes).toHaveLength(1);
  });
});

describe('wait', () => {
  let copy: Mirror;
  beforeEach(async () => {
    copy = await mirror();
    // earlier changes may still be announced
    let quiet = 0;
    while (quiet < 3) quiet = (await copy.requestPage()).changes.length === 0 ? quiet + 1 : 0;
  });

  it('ends with the first change', async () => {
    const waiting = copy.requestPage(30);
    await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
    // this wakes it, and it goes on
    await insertKey(service.sql, []);
    await service.sql`update hotels set name = 'waited for' where id = 'h4'`;
    const { changes, more } = await waiting;
    expect([changes.map(({ id, hotel }) => [id, hotel?.name]), more]).toEqual([
      [['h4', 'waited for']],
      false,
    ]);
    expect(await service.metric('hotel_api_changes_waiting')).toBe(0);
  });

  it('ends within a second with 401 if the key is revoked, and with 410 if it is moved to a collection', async () => {
    for (const [change, status] of [
      [service.sql`revoked_at = now()`, 401],
      [service.sql`collection_id = 'none'`, 410],
    ] as const) {
      const key = await insertKey(service.sql, []);
      const { next } = (await service.get('/changes?limit=1000', { key })).json();
      const waiting = service.get(`/changes?wait=30&after=${next}`, { key });
      await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
      await service.sql`update api_keys set ${change} where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
      expect((await waiting).status).toBe(status);
    }
  });

  it('ends within a second, without registry ids, if the key loses the scope', async () => {
    const key = await insertKey(service.sql, ['registry']);
    const { next } = (await service.get('/changes?limit=1000', { key })).json();
    const waiting = service.get(`/changes?wait=30&limit=1000&after=${next}`, { key });
    await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
    await service.sql`update api_keys set scopes = '{}' where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
    const { changes } = (await waiting).json();
    expect(changes.length).toBeGreaterThan(0);
    for (const { hotel } of changes) expect(hotel.registry_id).toBeNull();
  });

  it('ends at once if there are changes, and with an empty response if nothing changes', async () => {
    expect((await service.get('/changes?wait=30')).json().changes.length).toBeGreaterThan(0);
    expect((await copy.requestPage(1)).changes).toEqual([]);
  });

  it('ends when the client disconnects', async () => {
    const aborted = await service.metric('hotel_api_requests_aborted_total');
    const connection = new RawConnection(service.port);
    await connection.write(
      `GET /changes?wait=30&after=${copy.next} HTTP/1.1\r\nhost: a\r\nx-api-key: ${service.fullKey}\r\n\r\n`,
    );
    await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
    connection.close();
    await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(0);
    await expect.poll(() => service.metric('hotel_api_requests_aborted_total')).toBe(aborted + 1);
  });
});

describe('a token', () => {
  it('that is up to date is answered without a query', async () => {
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

  it('expires by a TRUNCATE, and the client restarts', async () => {
    const copy = await mirror('full', 7);
    const [firstToken] = copy.tokens;
    await service.sql`truncate hotels`;
    await service.sql`insert into hotels (id, name) values ('after', 'After')`;
    const expired = async (token: string) => (await service.get(`/changes?after=${token}`)).status;
    for (const token of [copy.next, firstToken!]) await expect.poll(() => expired(token!)).toBe(410);
    const response = await service.get(`/changes?after=${copy.next}`);
    expect(response.json()).toEqual({ error: EXPIRED });
    expect((await service.get(`/changes?after=${copy.next}&wait=30`)).json()).toEqual({ error: EXPIRED });
    const anew = await mirror();
    await untilMirror(anew, ({ hotels }) => hotels.has('after'));
    expect(anew.hotels).toEqual(await listed());
  });

  it('older than the retention expires; a younger one does not', async () => {
    await service.sql`insert into hotels (id, name) values ('old', 'Old'), ('young', 'Young')`;
    const copy = await mirror();
    await untilMirror(copy, ({ hotels }) => hotels.has('young'));
    const before = copy.next!;
    await service.sql`delete from hotels where id = 'old'`;
    await untilMirror(copy, ({ hotels }) => !hotels.has('old'));
    const between = copy.next!;
    await service.sql`delete from hotels where id = 'young'`;
    await untilMirror(copy, ({ hotels }) => !hotels.has('young'));
    await service.sql`
      update hotel_api_log set at = now() - interval '31 days' where position <= ${readToken(before)!.position}`;
    // rows are deleted when the next change is sequenced
    await service.sql`insert into hotels (id, name) values ('later', 'Later')`;
    await untilMirror(copy, ({ hotels }) => hotels.has('later'));
    expect((await service.get(`/changes?after=${before}`)).json()).toEqual({ error: EXPIRED });
    const { changes } = (await service.get(`/changes?after=${between}`)).json();
    expect(changes).toContainEqual({ id: 'young', hotel: null });
    expect((await service.get(`/changes?after=${copy.next}`)).json()).toMatchObject({
      changes: [],
      more: false,
    });
  });

  it('of a lost future expires, though its position exists again', async () => {
    const copy = await mirror();
    const token = readToken(copy.next!)!;
    await service.sql`insert into hotels (id, name) values ('in another future', 'n')`;
    const isPast = async () =>
      (await service.sql`select from hotel_api_log where position > ${token.position}`).length > 0;
    await expect.poll(isPast).toBe(true);
    expect((await service.get(`/changes?after=${copy.next}`)).status).toBe(200);
    await service.sql`
      update hotel_api_log set transaction = transaction + 1000000 where position = ${token.position}`;
    expect((await service.get(`/changes?after=${copy.next}`)).json()).toEqual({ error: EXPIRED });
  });

  it('beyond the end of the log, or of another history, expires', async () => {
    const copy = await mirror();
    const token = readToken(copy.next!)!;
    const ahead = writeToken({ ...token, position: token.position + 1_000 });
    for (const wait of [0, 30])
      expect((await service.get(`/changes?after=${ahead}&wait=${wait}`)).json()).toEqual({ error: EXPIRED });
    await service.sql`
      select hotel_api_begin_history((state).history, position, 0) from hotel_api_log order by position desc limit 1`;
    await expect.poll(async () => (await service.get(`/changes?after=${copy.next}`)).status).toBe(410);
    expect((await mirror()).hotels).toEqual(await listed());
  });
});
