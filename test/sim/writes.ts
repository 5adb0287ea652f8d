import { crc32 } from 'node:zlib';
import { hashOf } from '../../src/auth/key.ts';
import { EMPTY_ROW, type HotelRow } from '../../src/hotels/row.ts';
import { Rejected, type Statement } from './postgres.ts';
import { Random } from './random.ts';
import { type ApiKey, chunksOf, DAY_MS, type Data, type QueueKind, sortedHotels } from './sequencer.ts';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
export const COLLECTIONS = ['north', 'south'];

/** The names that hotels have in turn. */
export interface Names {
  hotels: number;
  keys: number;
}

/** Returns the n-th API key: well formed, and the same in every run. */
export function keyNumber(n: number): string {
  const start = `hk_${`${n}`.padStart(4, '0')}${'SimulatedKeySimulatedKeySimul'.slice(0, 28)}`;
  let rest = crc32(start);
  let digits = '';
  for (let i = 0; i < 6; i++) {
    digits = DIGITS[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return start + digits;
}

let writes = 0;

/** Begins to count the writes of an episode. */
export function beginWrites(): void {
  writes = 0;
}

export function hotelOf(id: string, n: number, fields: Partial<HotelRow> = {}): HotelRow {
  return {
    id,
    name: `w${++writes}`,
    ...EMPTY_ROW,
    ...{ address: 'Street 1', city: 'City', country_code: 'DE' },
    ...{ latitude: 1.5, longitude: 2.5, language: 'de', star_rating: 4, room_count: n },
    ...{ channel_id: `c${n}`, registry_id: String(1_000 + n) },
    ...fields,
  };
}

type Queued = ReturnType<Statement>['queued'][number];
const queuedOf = (kind: QueueKind, ids: string[], fields: Partial<Queued> = {}): Queued => ({
  ...{ kind, ids, channelIds: [], registryIds: [], collection: null, size: ids.length, moves: false },
  ...fields,
});

/** Rows of the queue for hotels that are there now, up to `max` in one. */
const noted = (rows: HotelRow[], moves: boolean, max = 1000): Queued[] =>
  chunksOf(rows, max).map((chunk) => {
    const channelIds = chunk.map((row) => row.channel_id);
    const registryIds = chunk.map((row) => row.registry_id);
    const ids = chunk.map(({ id }) => id);
    return queuedOf('hotels', ids, { moves, channelIds, registryIds });
  });

function withHotels(data: Data, change: (hotels: Map<string, HotelRow>) => void): Data {
  const hotels = new Map(data.hotels);
  change(hotels);
  for (const column of ['channel_id', 'registry_id'] as const) {
    const values = [...hotels.values()].flatMap((row) => row[column] ?? []);
    if (new Set(values).size < values.length) throw new Rejected(`a ${column} is used twice`);
  }
  return { ...data, hotels };
}

export const insert =
  (row: HotelRow): Statement =>
  (data) => {
    if (data.hotels.has(row.id)) throw new Rejected('the id is taken');
    return { data: withHotels(data, (hotels) => hotels.set(row.id, row)), queued: noted([row], true) };
  };

/** Updates hotels; `change` returns the new row. */
export const update =
  (ids: readonly string[], change: (row: HotelRow) => HotelRow, rowsOfQueue = 1000): Statement =>
  (data) => {
    const rows = ids.flatMap((id) => data.hotels.get(id) ?? []);
    if (rows.length === 0) throw new Rejected('no row');
    const changed = rows.map((row) => ({ ...change(row), name: `w${++writes}` }));
    const queued: Queued[] = [];
    for (const [i, row] of rows.entries()) {
      const after = changed[i]!;
      if (after.id === row.id) continue;
      queued.push(queuedOf('hotels', [row.id], { moves: true }), ...noted([after], true));
    }
    const next = withHotels(data, (hotels) => {
      for (const { id } of rows) hotels.delete(id);
      for (const row of changed) {
        if (hotels.has(row.id)) throw new Rejected('the id is taken');
        hotels.set(row.id, row);
      }
    });
    return { data: next, queued: [...queued, ...noted(changed, false, rowsOfQueue)] };
  };

export const remove =
  (ids: readonly string[]): Statement =>
  (data) => {
    const there = ids.filter((id) => data.hotels.has(id));
    if (there.length === 0) throw new Rejected('no row');
    const next = withHotels(data, (hotels) => {
      for (const id of there) hotels.delete(id);
    });
    return { data: next, queued: [queuedOf('hotels', there, { moves: true })] };
  };

export const truncate: Statement = (data) => ({
  data: { ...data, hotels: new Map() },
  queued: [queuedOf('all_hotels', [], { size: 0, moves: true })],
});

/** Changes with triggers disabled, and `hotel_api_invalidate`. */
export const silently =
  (statement: Statement): Statement =>
  (data) => ({
    data: statement(data).data,
    queued: (['all_hotels', 'all_keys', 'all_collections'] as const).map((kind) =>
      queuedOf(kind, [], { size: 0, moves: true }),
    ),
  });

export const setKey =
  (key: ApiKey | null, sha256: string): Statement =>
  (data) => {
    const keys = new Map(data.keys);
    // an update notes the key before and after it
    const ids = key && keys.has(sha256) ? [sha256, sha256] : [sha256];
    if (key) keys.set(sha256, key);
    else if (!keys.delete(sha256)) throw new Rejected('no row');
    return { data: { ...data, keys }, queued: [queuedOf('keys', ids)] };
  };

export const setMember =
  (collection: string, ids: readonly string[], isIn: boolean): Statement =>
  (data) => {
    if (isIn && !data.collections.has(collection)) throw new Rejected('no such collection');
    const members = new Map(data.members);
    const set = new Set(members.get(collection));
    const changed = ids.filter((id) => set.has(id) !== isIn);
    if (changed.length === 0) throw new Rejected('no row');
    for (const id of changed) {
      if (isIn) set.add(id);
      else set.delete(id);
    }
    members.set(collection, set);
    return { data: { ...data, members }, queued: [queuedOf('members', changed, { collection })] };
  };

/** `keepsMembers`: foreign keys are off for this statement. */
export const setCollection =
  (collection: string, exists: boolean, keepsMembers = false): Statement =>
  (data) => {
    if (data.collections.has(collection) === exists) throw new Rejected('no row');
    const collections = new Set(data.collections);
    const members = new Map(data.members);
    const queued: Queued[] = [];
    if (exists) collections.add(collection);
    else collections.delete(collection);
    if (!exists && !keepsMembers) {
      // the foreign key deletes its members
      const ids = [...(members.get(collection) ?? [])];
      members.set(collection, new Set());
      if (ids.length > 0) queued.push(queuedOf('members', ids, { collection }));
    }
    return {
      data: { ...data, collections, members },
      queued: [queuedOf('collections', [collection]), ...queued],
    };
  };

export const truncateMembers: Statement = (data) => ({
  data: { ...data, members: new Map([...data.members.keys()].map((name) => [name, new Set<string>()])) },
  queued: [queuedOf('all_collections', [], { size: 0, moves: true })],
});

/** Draws the statements of one transaction. `atOnce`: ids beyond which a change is a bulk. */
export function drawStatements(
  random: Random,
  data: Data,
  names: Names,
  atOnce: number,
  wallMs: number,
): Statement[] {
  const ids = sortedHotels(data).map(({ id }) => id);
  // a few hotels change often
  const some = () => ids[Math.floor(ids.length * random.next() ** 2)] ?? 'h0';
  const day = (offset: number) => new Date(wallMs + offset * DAY_MS).toISOString().slice(0, 10);
  const dates = (): Partial<HotelRow> => {
    const from = random.whole(-2, 1);
    return random.chance(0.5)
      ? { certified_from: day(from), certified_until: day(from + random.whole(0, 2)) }
      : { certified_from: null, certified_until: null };
  };
  const field = (row: HotelRow): HotelRow => ({ ...row, room_count: random.whole(1, 999), ...dates() });
  const what = random.next();
  if (what < 0.4) return [update([some()], field)];
  if (what < 0.45) return [update([some()], field), update([some()], field), update([some()], field)];
  if (what < 0.52) {
    // keys move: they change hands in one transaction, or are free for a while
    const [a, b] = [some(), some()];
    const column = random.chance(0.5) ? 'channel_id' : 'registry_id';
    const set = (id: string, value: string | null) => update([id], (row) => ({ ...row, [column]: value }));
    const [ofA = null, ofB = null] = [a, b].map((id) => data.hotels.get(id)?.[column]);
    if (a === b || random.chance(0.3)) return [set(a, null)];
    return [set(a, null), set(b, ofA), ...(random.chance(0.5) ? [set(a, ofB)] : [])];
  }
  if (what < 0.57) {
    const n = random.whole(0, names.hotels - 1);
    const column = random.chance(0.5) ? { channel_id: `c${n}` } : { registry_id: String(1_000 + n) };
    return [update([some()], (row) => ({ ...row, ...column }))];
  }
  if (what < 0.66) {
    const n = random.whole(0, names.hotels - 1);
    return [insert(hotelOf(`h${n}`, n, { ...dates(), ...(random.chance(0.2) && { channel_id: null }) }))];
  }
  if (what < 0.73) return [remove([some()])];
  if (what < 0.75)
    return [update([some()], (row) => ({ ...row, id: `h${random.whole(0, names.hotels - 1)}` }))];
  if (what < 0.77) {
    const many = ids.filter(() => random.chance(0.7));
    return [update(many, field, random.chance(0.5) ? 3 : 1000)];
  }
  if (what < 0.775) {
    const rows = sortedHotels(data).filter(() => random.chance(0.8));
    const refill = rows.map((row) => insert({ ...row, name: `w${++writes}` }));
    return random.chance(0.5) ? [truncate, ...refill] : [truncate];
  }
  if (what < 0.78) return [silently(update([some()], field))];
  if (what < 0.9) {
    const n = random.whole(0, names.keys - 1);
    const sha256 = hashOf(keyNumber(n));
    const known = data.keys.get(sha256);
    if (!known || random.chance(0.15)) return [setKey(known ? null : newKey(random, sha256), sha256)];
    const change = random.pick([
      { revoked: !known.revoked },
      { revoked: !known.revoked },
      { scopes: known.scopes.length > 0 ? [] : ['registry'] },
      { collection: random.pick([null, ...COLLECTIONS]) },
      { expiresAtMs: wallMs + random.between(-2_000, 10_000) },
      { expiresAtMs: null },
      { limit: limitOf(n, `${wallMs}`) },
    ]);
    return [setKey({ ...known, ...change }, sha256)];
  }
  const collection = random.pick(COLLECTIONS);
  if (what < 0.98) {
    const n = random.chance(0.1) ? atOnce + 2 : 1;
    const id = () => (random.chance(0.8) ? some() : `h${random.whole(0, names.hotels - 1)}`);
    const chosen = Array.from({ length: n }, id);
    return [setMember(collection, [...new Set(chosen)], random.chance(0.55))];
  }
  if (what < 0.985) return [truncateMembers];
  return [setCollection(collection, !data.collections.has(collection), random.chance(0.5))];
}

/** Draws the rate limit of the n-th key, from numbers of its own. The first keys, those of mirrors, have none. */
export function limitOf(n: number, seed: string): ApiKey['limit'] {
  const random = new Random(`${seed} limit ${n}`);
  if (n < 3 || random.chance(0.2)) return null;
  return { requests: random.pick([1, 3, 10]), windowS: random.pick([1, 2, 5]) };
}

export function newKey(random: Random, sha256: string, collection?: string | null): ApiKey {
  return {
    ...{ limit: null, sha256, id: `key${sha256.slice(0, 6)}`, revoked: false, expiresAtMs: null },
    scopes: random.chance(0.6) ? ['registry'] : [],
    collection: collection === undefined ? random.pick([null, null, ...COLLECTIONS]) : collection,
  };
}
