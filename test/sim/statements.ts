import { changesQuery, walkQuery } from '../../src/changes/log-queries.ts';
import { STRIDE } from '../../src/hotels/id-list.ts';
import type { HotelRow } from '../../src/hotels/row.ts';
import { Fault, type PgServer } from './postgres.ts';
import { type Data, indexAfter, isPolled, newestOf, poll, queued, rowOf, sortedHotels } from './sequencer.ts';

const MAX_IDS_OF_ROW = 1000;
const MAX_QUEUED = 2000;
const CHANGES = changesQuery(null);
const CHANGES_OF_COLLECTION = changesQuery('$3');
const WALK = walkQuery(null);
const WALK_OF_COLLECTION = walkQuery('$4');

/** Executes a statement of the service in one snapshot of a server. Only these statements are known. */
export function execute(
  server: PgServer,
  text: string,
  parameters: readonly unknown[],
): object[] | object[][] {
  const { data } = server.folder;
  const trimmed = text.trim();
  if (trimmed === 'select') return [{}];
  if (trimmed === 'select from hotels limit 1') return [];
  if (text.includes('hotel_api_poll(')) {
    if (server.role === 'replica') throw new Fault('25006', 'this server is a replica');
    return polled(server, text, parameters);
  }
  if (text.includes('from hotel_api_history()')) {
    const { position, transaction, state } = newestOf(data);
    const secret = Buffer.from(data.secret.padEnd(32, '.').slice(-32)).toString('hex');
    return [{ history: state.history, position, transaction: String(transaction), secret }];
  }
  if (text.startsWith('select state.log_from::float8')) return before(server, parameters as [number, number]);
  // the service logs locks for operators, and does nothing else with them
  if (text.includes('from pg_locks')) return [];
  if (text.startsWith('select mark.label')) return labelled(server, text, parameters);
  if (text === CHANGES || text === CHANGES_OF_COLLECTION)
    return changes(server, parameters as [number, number, string?]);
  if (text === WALK || text === WALK_OF_COLLECTION)
    return walk(server, parameters as [number | null, number, string, string?]);
  throw new Error(`the model of PostgreSQL does not know this statement: ${text}`);
}

function polled(server: PgServer, text: string, parameters: readonly unknown[]): object[] | object[][] {
  const [, first, second, max] = /hotel_api_poll\(([^,]+), ([^,]+), (\d+)\)/.exec(text)!;
  const argument = (word: string, i: number) =>
    word.startsWith('$') ? parameters[i] : word === 'null' ? null : word;
  const [after, transaction] = [argument(first!, 0), argument(second!, 1)] as (string | number | null)[];
  const known = transaction === null ? null : String(transaction);
  const rows = poll(server, after === null ? null : Number(after), known, Number(max));
  return text.includes('hotel_api_sequence()') ? [[], [], rows] : rows;
}

/** Rows of the log up to a position, the last first. */
function before(server: PgServer, [position, limit]: [number, number]): object[] {
  const { data } = server.folder;
  const newest = newestOf(data);
  if (newest.position < position) return [];
  const deletedTo = newest.state.logFrom;
  const rows = data.log
    .slice(0, indexAfter(data.log, position))
    .filter(isPolled)
    .toReversed()
    .slice(0, limit);
  if (rows.length === 0) return [{ deletedTo, position: null }];
  return rows.map((row) => ({ deletedTo, ...rowOf(row, server.wallMs) }));
}

function labelled(server: PgServer, text: string, parameters: readonly unknown[]): object[] {
  const { data } = server.folder;
  const [, inner] = /query\.\* from \((.*)\) as query\)/s.exec(text)!;
  const newest = newestOf(data);
  const mark = { label: newest.position, history: newest.state.history, server: server.serverText };
  const rows = query(data, inner!.trim(), parameters);
  return rows.length === 0
    ? [{ ...mark, found: null }]
    : rows.map((row) => ({ ...mark, found: true, ...row }));
}

function copyOf(hotel: HotelRow): HotelRow {
  return { ...hotel, images: [...hotel.images] };
}

export function isMember({ collections, members }: Data, collection: string, id: string): boolean {
  return collections.has(collection) && (members.get(collection)?.has(id) ?? false);
}

/** Returns whether a key sees a hotel that is there; null: a key of no collection. */
export function isSeen(data: Data, collection: string | null, id: string): boolean {
  return collection === null || isMember(data, collection, id);
}

function query(data: Data, text: string, parameters: readonly unknown[]): object[] {
  if (text === 'select 1') return [{ '?column?': 1 }];
  const [, column] = /from hotels where (id|channel_id|registry_id) = any/.exec(text) ?? [];
  if (column) {
    const keys = new Set(parameters[0] as string[]);
    const collection = text.includes('collection_hotels') ? (parameters[1] as string) : null;
    return sortedHotels(data)
      .filter((hotel) => keys.has(hotel[column as 'id']) && isSeen(data, collection, hotel.id))
      .map(copyOf);
  }
  if (text.includes('from api_keys where key_sha256')) {
    const key = data.keys.get(parameters[0] as string);
    if (!key || key.revoked) return [];
    const { id: keyId, scopes, expiresAtMs, collection } = key;
    const view = scopes.includes('registry') ? 'full' : 'narrow';
    const limit = key.limit && { requests: key.limit.requests, windowMs: 1000 * key.limit.windowS };
    return [{ principal: { keyId, view, expiresAtMs, limit, collection } }];
  }
  if (text.includes('as prefix from api_keys'))
    return [...data.keys.keys()].map((sha256) => ({ prefix: sha256.slice(0, 12) }));
  if (text.startsWith('select count(*)::float8 as count from collection_hotels'))
    return [{ count: membersOf(data, parameters[0] as string).length }];
  if (text.startsWith('select asked.id, hotel.*')) return memberships(data, parameters);
  return list(data, text, parameters);
}

/** The hotels with these ids, or those of a collection behind an id, with their ids. */
function memberships(data: Data, parameters: readonly unknown[]): object[] {
  const [collection, second, limit] = parameters as [string, string | string[], number | undefined];
  const ids = Array.isArray(second)
    ? second
    : membersOf(data, collection)
        .filter((id) => id > second)
        .slice(0, limit);
  return ids.map((id) => {
    const { channel_id = null, registry_id = null } = data.hotels.get(id) ?? {};
    return { id, channel_id, registry_id, is_member: isMember(data, collection, id) };
  });
}

function membersOf({ collections, members }: Data, collection: string): string[] {
  return collections.has(collection) ? [...(members.get(collection) ?? [])].sort() : [];
}

/** Statements of src/hotels/id-list.ts. */
function list(data: Data, text: string, parameters: readonly unknown[]): object[] {
  const isOfCollection = text.includes('collection_hotels');
  const own = isOfCollection ? parameters.slice(1) : parameters;
  const ids = isOfCollection
    ? membersOf(data, parameters[0] as string).filter((id) => data.hotels.has(id))
    : sortedHotels(data).map(({ id }) => id);
  const between = (from: string | null, to: string | null) =>
    ids.filter((id) => id >= (from ?? '') && (to === null || id < to));
  if (text.includes('as bounds')) {
    const [from, to, limit] = own as [(string | null)[], (string | null)[], number];
    return from.map((low, i) => {
      const found = between(low, to[i]!).slice(0, limit);
      return { count: found.length, starts: found.filter((_, place) => place > 0 && place % STRIDE === 0) };
    });
  }
  if (/^select id from .* offset \S+ \S+ limit \S+ \S+$/s.test(text)) {
    const [from, to, skip, limit] = own as [string | null, string | null, number, number];
    return between(from, to)
      .slice(skip, skip + limit)
      .map((id) => ({ id }));
  }
  throw new Error(`the model of PostgreSQL does not know this query: ${text}`);
}

/** `stateOf` of src/changes/log-queries.ts. */
function stateOf(server: PgServer, position: number | null, collection: string | null, more = {}): string {
  const { data } = server.folder;
  const newest = newestOf(data);
  const s = newest.state;
  const queue = queued(data, s.snapshot, server.snapshot).slice(0, MAX_QUEUED);
  const ofToken = position === null ? undefined : data.log.find((row) => row.position >= position);
  return JSON.stringify({
    history: s.history,
    position: newest.position,
    transaction: String(newest.transaction),
    oldest: collection === null ? s.oldest : Math.max(s.oldest, s.oldestOfCollections),
    day: new Date(s.day * 86_400_000).toISOString().slice(0, 10),
    isListing: s.pending.length > 0 || s.flipsAfter !== null,
    isQueued:
      queue.length === MAX_QUEUED ||
      queue.some((row) => isOf(['hotels', ...allOf(collection)], row, collection)),
    // its members have stayed without it
    isOrphaned:
      collection !== null &&
      !data.collections.has(collection) &&
      (data.members.get(collection)?.size ?? 0) > 0,
    transactionOfToken: ofToken ? String(ofToken.transaction) : null,
    server: server.serverText,
    ...more,
  });
}

const allOf = (collection: string | null) =>
  collection === null ? ['all_hotels'] : ['all_hotels', 'all_collections'];

/** Returns whether a row of the queue or of the log has one of these kinds, or members of the collection of a key. */
function isOf(kinds: string[], row: { kind: string; collection: string | null }, collection: string | null) {
  return (
    kinds.includes(row.kind) ||
    (collection !== null && row.kind === 'members' && row.collection === collection)
  );
}

/** `changesQuery` of src/changes/log-queries.ts. */
function changes(
  server: PgServer,
  [position, limit, collection = null]: [number, number, (string | null)?],
): object[] {
  const { data } = server.folder;
  const newest = newestOf(data);
  const from = indexAfter(data.log, position);
  const to = indexAfter(data.log, position + limit + MAX_IDS_OF_ROW - 1);
  const range = data.log.slice(from, to);
  const isVisible = (id: string) => isSeen(data, collection, id);
  const firsts = new Map<string, { at: number; transaction: number; isMembers: boolean }>();
  for (const row of range) {
    if (!row.ids || !isOf(['hotels', 'listed'], row, collection)) continue;
    for (const [i, id] of row.ids.entries()) {
      const at = row.position - row.ids.length + i + 1;
      if (at <= position) continue;
      const known = firsts.get(id);
      const isMembers = row.kind === 'members' || (known?.isMembers ?? false);
      if (!known) firsts.set(id, { at, transaction: row.transaction, isMembers });
      else known.isMembers = isMembers;
    }
  }
  const page = [...firsts]
    .filter(([id, { isMembers }]) => collection === null || isMembers || isVisible(id))
    .sort((a, b) => a[1].at - b[1].at)
    .slice(0, limit);
  const last = range.at(-1);
  const rest: { id: string; kind: string }[] = [];
  const queue = queued(data, newest.state.snapshot, server.snapshot).slice(0, MAX_QUEUED);
  if (page.length < limit && !(last && last.position < newest.position))
    for (const row of queue)
      if (isOf(['hotels'], row, collection))
        for (const id of row.ids) if (rest.length < limit) rest.push({ id, kind: row.kind });
  const inPage = new Set(page.map(([id]) => id));
  const queuedIds = [...new Set(rest.map(({ id }) => id))].filter(
    (id) =>
      !inPage.has(id) &&
      (collection === null || isVisible(id) || rest.some((row) => row.id === id && row.kind === 'members')),
  );
  const state = {
    state: stateOf(server, position, collection, {
      isCut: rest.length >= limit || queue.some(({ kind }) => allOf(collection).includes(kind)),
      readTo: last ? { position: last.position, transaction: String(last.transaction) } : null,
    }),
  };
  const hotel = (id: string) => {
    const row = data.hotels.get(id);
    return row && isVisible(id) ? copyOf(row) : { id: null };
  };
  const rows = [
    ...page.map(([id, { at, transaction }]) => ({
      ...{ ...state, changed_id: id, log_position: at, log_transaction: String(transaction) },
      ...hotel(id),
    })),
    ...queuedIds.map((id) => ({
      ...{ ...state, changed_id: id, log_position: null, log_transaction: null },
      ...hotel(id),
    })),
  ];
  const none = { changed_id: null, log_position: null, log_transaction: null, id: null };
  return rows.length > 0 ? rows : [{ ...state, ...none }];
}

/** `walkQuery` of src/changes/log-queries.ts. */
function walk(
  server: PgServer,
  [position, limit, id, collection = null]: [number | null, number, string, (string | null)?],
): object[] {
  const { data } = server.folder;
  const state = stateOf(server, position, collection);
  const hotels = sortedHotels(data)
    .filter((hotel) => hotel.id > id && isSeen(data, collection, hotel.id))
    .slice(0, limit);
  if (hotels.length === 0) return [{ state, changed_id: null, id: null }];
  return hotels.map((hotel) => ({ state, changed_id: hotel.id, ...copyOf(hotel) }));
}
