import type { HotelRow } from '../../src/hotels/row.ts';
import type { PgServer } from './postgres.ts';
import { entryOf } from './world.ts';

/** The tables, as one snapshot shows them. Never changed: a commit makes another. */
export interface Data {
  readonly hotels: ReadonlyMap<string, HotelRow>;
  readonly keys: ReadonlyMap<string, ApiKey>;
  readonly collections: ReadonlySet<string>;
  readonly members: ReadonlyMap<string, ReadonlySet<string>>;
  readonly queue: readonly QueueRow[];
  readonly log: readonly LoggedRow[];
  readonly secret: string;
}

export interface ApiKey {
  sha256: string;
  id: string;
  scopes: string[];
  revoked: boolean;
  /** epoch ms */
  expiresAtMs: number | null;
  collection: string | null;
  limit: { requests: number; windowS: number } | null;
}

export type QueueKind =
  | 'hotels'
  | 'keys'
  | 'members'
  | 'collections'
  | `all_${'hotels' | 'keys' | 'collections'}`;

export interface QueueRow {
  transaction: number;
  number: number;
  kind: QueueKind;
  ids: string[];
  channelIds: (string | null)[];
  registryIds: (string | null)[];
  collection: string | null;
  size: number;
  moves: boolean;
  atMs: number;
}

/** `pg_snapshot`. */
export interface Snapshot {
  xmin: number;
  xmax: number;
  xip: readonly number[];
}

/** `hotel_api_state`. */
export interface State {
  history: string;
  place: string;
  snapshot: Snapshot;
  pending: number[];
  pendingAfter: number | null;
  queueFrom: number;
  logFrom: number;
  oldest: number;
  oldestOfCollections: number;
  ids: number;
  day: number;
  flipsFrom: number | null;
  flipsTo: number | null;
  flipsAfter: string | null;
}

/** Row of `hotel_api_log`. */
interface LoggedRow {
  position: number;
  atMs: number;
  kind: QueueKind | 'listed' | 'drained';
  moves: boolean;
  ids: string[] | null;
  channelIds: (string | null)[] | null;
  registryIds: (string | null)[] | null;
  collection: string | null;
  transaction: number;
  /** transaction that inserted the row here, which differs after a restore */
  xmin: number;
  state: State | null;
}

/** Constants of hotel_api_sequence, smaller here, so that a small table reaches them. */
export interface Sizes {
  maxPiece: number;
  maxRow: number;
  maxKeys: number;
  maxScanned: number;
  maxDeleted: number;
  minAgeMs: number;
  maxIds: number;
}

/** What a call of the sequencer sees, and what it draws. */
export interface SequencerContext {
  data: Data;
  shown: Snapshot;
  /** its own transaction */
  xid: number;
  /** true time of the server's clock */
  nowMs: number;
  place: string;
  sizes: Sizes;
  draw: () => string;
}

/** What a transaction of the sequencer changes. */
export interface Drain {
  rows: LoggedRow[];
  deletedTo: number | undefined;
  deletedQueue: ReadonlySet<QueueRow>;
  secret: string | undefined;
}

export const DAY_MS = 86_400_000;

function dayOf(wallMs: number): number {
  return Math.floor(wallMs / DAY_MS);
}

export function isVisible(xid: number, { xmax, xip }: Snapshot): boolean {
  return xid < xmax && !xip.includes(xid);
}

/** `hotel_api_ranges`: transactions that finished between two snapshots. */
function rangesOf(before: Snapshot, after: Snapshot): [low: number, high: number][] {
  const ended = before.xip.filter((xid) => isVisible(xid, after));
  const ranges = ended.map((xid): [number, number] => [xid, xid]);
  // those of a snapshot are sorted
  const bounds = [before.xmax - 1, ...after.xip.filter((xid) => xid >= before.xmax)];
  for (const [i, bound] of bounds.entries()) {
    const low = bound + 1;
    const high = (bounds[i + 1] ?? after.xmax) - 1;
    if (low <= high) ranges.push([low, high]);
  }
  return ranges;
}

/** Rows of the queue that the transactions between two snapshots wrote. */
export function queued({ queue }: Data, before: Snapshot, after: Snapshot): QueueRow[] {
  const ranges = rangesOf(before, after);
  if (ranges.length === 0) return [];
  return queue.filter(({ transaction }) =>
    ranges.some(([low, high]) => transaction >= low && transaction <= high),
  );
}

export function newestOf({ log }: Data): LoggedRow & { state: State } {
  return log.at(-1) as LoggedRow & { state: State };
}

/** Returns the index of the first row with a position above this one. */
export function indexAfter(log: readonly LoggedRow[], position: number): number {
  let low = 0;
  let high = log.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (log[middle]!.position > position) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Returns the items in pieces of at most so many. */
export const chunksOf = <Item>(items: readonly Item[], max: number): Item[][] =>
  Array.from({ length: Math.ceil(items.length / max) }, (_, i) => items.slice(i * max, (i + 1) * max));

/** Appends rows as the statements of the sequencer do. */
class Appender {
  readonly rows: LoggedRow[] = [];
  readonly #context: SequencerContext;
  last: number;

  constructor(context: SequencerContext) {
    this.#context = context;
    this.last = context.data.log.at(-1)?.position ?? 0;
  }

  append(kind: LoggedRow['kind'], fields: Partial<LoggedRow> = {}): number {
    const { nowMs: atMs, xid } = this.#context;
    this.last += Math.max(1, fields.ids?.length ?? 0);
    this.rows.push({
      ...{ position: this.last, atMs, kind, moves: false, ids: null, channelIds: null, registryIds: null },
      ...{ collection: null, transaction: xid, xmin: xid, state: null },
      ...fields,
    });
    return this.last;
  }

  /** Appends rows with these ids, so many in each. */
  appendIds(kind: LoggedRow['kind'], all: string[], max: number, fields: Partial<LoggedRow> = {}): void {
    for (const ids of chunksOf(all, max)) this.append(kind, { ...fields, ids });
  }
}

/** `hotel_api_new_history`. */
export function newHistory(context: SequencerContext): Drain {
  const { data, shown, place, nowMs } = context;
  const appender = new Appender(context);
  const logFrom = (data.log[0]?.position ?? 1) - 1;
  appender.append('all_hotels', { moves: true });
  appender.append('all_keys');
  const oldest = appender.append('all_collections');
  const state: State = {
    ...{ history: context.draw(), place, snapshot: shown, pending: [], pendingAfter: null, queueFrom: 0 },
    ...{ logFrom, oldest, oldestOfCollections: oldest, ids: 0, day: dayOf(nowMs) },
    ...{ flipsFrom: null, flipsTo: null, flipsAfter: null },
  };
  appender.append('drained', { state });
  const isOld = ({ transaction }: QueueRow) =>
    isVisible(transaction, shown) || transaction > shown.xmax + 1_000_000;
  const deletedQueue = new Set(data.queue.filter(isOld));
  return { rows: appender.rows, deletedTo: undefined, deletedQueue, secret: context.draw() };
}

/** `hotel_api_sequence`, behind its lock. Returns undefined if there is nothing to do. */
export function sequence(context: SequencerContext): Drain | undefined {
  const { data, shown, nowMs, sizes } = context;
  const { maxPiece, maxRow, maxKeys, maxScanned, maxDeleted, maxIds } = sizes;
  const newest = newestOf(data);
  if (!newest || newest.xmin !== newest.transaction || newest.state.place !== context.place)
    return newHistory(context);
  const s: State = structuredClone(newest.state);
  const before = s.snapshot;
  const today = dayOf(nowMs);
  const found = queued(data, before, shown);
  if (found.length === 0 && s.pending.length === 0 && s.day === today && s.flipsAfter === null)
    return undefined;
  const log = new Appender(context);
  const has = (kind: QueueKind) => found.length > maxIds || found.some((row) => row.kind === kind);
  const sumOf = (rows: QueueRow[]) => rows.reduce((sum, { size }) => sum + size, 0);

  if (found.length > 0) {
    const keys = found.filter(({ kind }) => kind === 'keys').flatMap(({ ids }) => ids);
    if (has('all_keys') || keys.length > maxKeys) log.append('all_keys');
    else log.appendIds('keys', keys, maxRow);
    const ofCollections = found.filter(({ kind }) => kind === 'members' || kind === 'collections');
    if (has('all_collections') || sumOf(ofCollections) > maxIds) {
      s.oldestOfCollections = log.append('all_collections');
      ofCollections.length = 0;
    }
    const groups = new Map<string, { kind: QueueKind; collection: string | null; ids: string[] }>();
    for (const { kind, collection, ids } of ofCollections) {
      entryOf(groups, `${kind} ${collection}`, () => ({ kind, collection, ids: [] })).ids.push(...ids);
    }
    for (const name of [...groups.keys()].sort()) {
      const { kind, collection, ids } = groups.get(name)!;
      log.appendIds(kind, ids, maxRow, { collection });
    }
    const moves = found.length > maxIds || found.some((row) => row.moves);
    const rows = found.filter(({ kind }) => kind === 'hotels');
    const hotels = sumOf(rows);
    const isAtOnce = hotels <= maxPiece;
    const sizeOf = (xid: number) => sumOf(rows.filter(({ transaction }) => transaction === xid));
    const xids = [...new Set(rows.map(({ transaction }) => transaction))].sort((a, b) => a - b);
    const large = xids.filter((xid) => sizeOf(xid) > maxRow);
    if (has('all_hotels')) {
      // mirrors begin again
      s.oldest = log.append('all_hotels', { moves });
      s.pending = [];
      s.pendingAfter = null;
      rows.length = 0;
    } else if (!isAtOnce) {
      log.append('all_hotels', { moves });
      s.pending.push(...large);
    }
    for (const moves of [false, true]) {
      const changed = rows
        .filter((row) => row.moves === moves && (isAtOnce || !large.includes(row.transaction)))
        .flatMap(({ ids, channelIds, registryIds }) =>
          ids.map((id, i) => [id, channelIds[i] ?? null, registryIds[i] ?? null] as const),
        );
      for (const chunk of chunksOf(changed, maxRow))
        log.append(isAtOnce ? 'hotels' : 'listed', {
          moves,
          ids: chunk.map(([id]) => id),
          channelIds: chunk.map(([, channelId]) => channelId),
          registryIds: chunk.map(([, , registryId]) => registryId),
        });
    }
    s.ids += sumOf(rows);
  }

  const ofPending = (after: number) =>
    data.queue
      .filter((row) => row.transaction === s.pending[0] && row.number > after && row.kind === 'hotels')
      .toSorted((a, b) => a.number - b.number);
  if (s.pending.length > 0) {
    const piece: QueueRow[] = [];
    let sum = 0;
    for (const row of ofPending(s.pendingAfter ?? 0).slice(0, 2_000)) {
      if (sum >= maxPiece) break;
      sum += row.size;
      piece.push(row);
    }
    const ids = piece.flatMap((row) => row.ids);
    log.appendIds('listed', ids, maxRow);
    const last = piece.at(-1);
    s.pendingAfter = last?.number ?? null;
    if (!last || ofPending(last.number).length === 0) {
      s.pending.shift();
      s.pendingAfter = null;
    }
  }

  if (s.day !== today) {
    s.flipsFrom = Math.min(s.flipsFrom ?? Infinity, s.day, today);
    s.flipsTo = Math.max(s.flipsTo ?? -Infinity, s.day, today);
    s.flipsAfter = '';
    s.day = today;
  }
  if (s.flipsAfter !== null) {
    const scanned = sortedHotels(data)
      .filter(({ id }) => id > s.flipsAfter!)
      .slice(0, maxScanned);
    const flips = scanned.filter((hotel) => {
      const [from, until] = [dateOf(hotel.certified_from), dateOf(hotel.certified_until)];
      if (from === null || until === null || from > until) return false;
      return (from > s.flipsFrom! && from <= s.flipsTo!) || (until >= s.flipsFrom! && until < s.flipsTo!);
    });
    const ids = flips.map(({ id }) => id);
    log.appendIds('listed', ids, maxRow);
    s.flipsAfter = scanned.at(-1)?.id ?? s.flipsAfter;
    s.ids += flips.length;
    if (scanned.length < maxScanned) Object.assign(s, { flipsFrom: null, flipsTo: null, flipsAfter: null });
  }

  s.snapshot = shown;
  const finishedBefore = Math.min(shown.xmin, ...s.pending);
  const old = data.queue
    .filter(({ transaction }) => transaction >= s.queueFrom && transaction < finishedBefore)
    .toSorted((a, b) => a.transaction - b.transaction || a.number - b.number)
    .slice(0, maxDeleted);
  s.queueFrom = old.length < maxDeleted ? finishedBefore : old.at(-1)!.transaction;

  const first = data.log.slice(indexAfter(data.log, s.logFrom)).slice(0, maxDeleted);
  const deletable = first.findLast(
    ({ kind, atMs, position, state }) =>
      kind === 'drained' &&
      atMs < nowMs - sizes.minAgeMs &&
      (position <= s.oldest || s.ids - state!.ids > sizes.maxIds),
  );
  if (deletable) {
    s.logFrom = deletable.position;
    s.oldest = Math.max(s.oldest, deletable.position);
    s.oldestOfCollections = Math.max(s.oldestOfCollections, deletable.position);
  }
  log.append('drained', { state: s });
  return { rows: log.rows, deletedTo: deletable?.position, deletedQueue: new Set(old), secret: undefined };
}

/** Applies a transaction of the sequencer to what has been committed meanwhile. */
export function commitDrain(data: Data, { rows, deletedTo, deletedQueue, secret }: Drain): Data {
  const kept = deletedTo === undefined ? data.log : data.log.slice(indexAfter(data.log, deletedTo));
  return {
    ...data,
    log: [...kept, ...rows],
    queue: deletedQueue.size === 0 ? data.queue : data.queue.filter((row) => !deletedQueue.has(row)),
    secret: secret ?? data.secret,
  };
}

const ordered = new WeakMap<ReadonlyMap<string, HotelRow>, HotelRow[]>();

/** Hotels in the order of their ids. */
export function sortedHotels({ hotels }: Pick<Data, 'hotels'>): HotelRow[] {
  return entryOf(ordered, hotels, () => [...hotels.values()].sort((a, b) => (a.id < b.id ? -1 : 1)));
}

export function dateOf(text: string | null): number | null {
  return text === null ? null : Date.parse(`${text}T00:00:00Z`) / DAY_MS;
}

/** `hotel_api_poll` behind a position and its transaction, if given: the rows as postgres.js returns them. */
export function poll(
  { folder: { data }, snapshot, wallMs: nowMs, serverText: server }: PgServer,
  after: number | null,
  transactionOfAfter: string | null,
  maxRows: number,
): object[] {
  const newest = newestOf(data);
  const s = newest.state;
  const isUnread = queued(data, s.snapshot, snapshot).length > 0;
  const isDue =
    isUnread ||
    newest.xmin !== newest.transaction ||
    s.pending.length > 0 ||
    s.flipsAfter !== null ||
    s.day !== dayOf(nowMs);
  const state = {
    ...{ history: s.history, server, last: newest.position },
    ...{ lastTransaction: String(newest.transaction), isUnread, isDue },
  };
  const none = {
    ...{ position: null, transaction: null, ageMs: null, kind: null, moves: null, ids: null },
    ...{ channelIds: null, registryIds: null, collection: null },
  };
  if (after === null || (after === newest.position && transactionOfAfter === String(newest.transaction)))
    return [{ ...state, isContinued: true, ...none }];
  const from = indexAfter(data.log, after);
  const at = data.log[from - 1];
  const isThere = at?.position === after && String(at.transaction) === transactionOfAfter;
  const isContinued = isThere ? true : after > s.logFrom ? false : null;
  const rows = data.log.slice(from).filter(isPolled).slice(0, maxRows);
  if (rows.length === 0) return [{ ...state, isContinued, ...none }];
  return rows.map((row) => ({ ...state, isContinued, ...rowOf(row, nowMs) }));
}

/** Returns whether a row of the log is for services: the others are for mirrors and the sequencer. */
export const isPolled = ({ kind }: LoggedRow): boolean => kind !== 'listed' && kind !== 'drained';

/** Columns of a row of the log, as the queries of the service return them. */
export function rowOf(row: LoggedRow, nowMs: number): object {
  return {
    position: row.position,
    transaction: String(row.transaction),
    ageMs: nowMs - row.atMs,
    kind: row.kind,
    moves: row.moves,
    ids: row.ids && [...row.ids],
    channelIds: row.channelIds && [...row.channelIds],
    registryIds: row.registryIds && [...row.registryIds],
    collection: row.collection,
  };
}
