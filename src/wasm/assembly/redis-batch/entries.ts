/** Last step of a batch: from the reply with its entries to its response. */

import { BODY_LENGTH_AT, LABEL_AT, SHARED_LENGTH_AT } from '../../../hotels/entry-layout';
import { GAP, MAX_ENTRY_BYTES } from '../../constants';
import * as fields from '../../fields';
import { bodyOf, hasKey, isValid, showAt } from '../arena/entry';
import { hasRoomInMain } from '../arena/eviction';
import { recordOf } from '../arena/index';
import { COMMA, closeArray, endBody, MAX_END_BYTES } from '../arena/lookup';
import { putEntry } from '../arena/store';
import { hashOf, spread } from '../hash';
import {
  outputStart,
  PLACES,
  REPLY,
  RESPONSE,
  RESPONSE_BYTES,
  RESULT,
  WINDOW,
  WINDOW_BUCKETS,
} from '../layout';
import { pendingAt } from './pending-keys';
import { forgetId } from './pointer-cache';

/**
 * While the local cache is full, one of this number of entries is stored. Most entries of a large data set are evicted before
 * their second use, and to store an entry and evict another takes longer than to read it from a reply. Hit ratio for Zipf reads
 * (exponent 0.8) with room for 33 % of the hotels: 63.2 %, against 68.0 % with all stored.
 */
const STORED_ONE_OF: u32 = 32;

/** What becomes of an entry: a body of the response, or the entry itself. */
const FULL: u32 = 1;
const ENTRIES: u32 = 2;

/**
 * The window of src/log/window.ts has the position of the newest known change by hash bucket, then the floor, all as f64.
 */
const FLOOR: usize = WINDOW + <usize>WINDOW_BUCKETS * 8;

let namespace: u32 = 0;
let view: u32 = 0;
let nowWallMs: f64 = 0;
/** the present record */
let pending = pendingAt(0);
let output: usize = RESPONSE;
/** length of the local hits, and how many of their bytes are in the response */
let hitsLength: u32 = 0;
let hitsTaken: u32 = 0;
let isOutputFull: bool = false;
let gaps: u32 = 0;
let hits: u32 = 0;
let invalid: u32 = 0;
/** entries since the last that was stored */
let passed: u32 = 0;
/** time at which entries are stored, negative: none is; for how long at most */
let storedAtMs: f64 = -1;
let maxAgeMs: f64 = 0;

/**
 * Reads the values at REPLY, located by PLACES, into the response. The table of `count` records is at SCRATCH; the array of
 * local hits, `ofHits` bytes, is in the output. `ofView`: narrow, FULL or ENTRIES. The local cache stores entries, or a sample, as
 * read at `nowMs`, for half of `ofMaxAgeMs` to all of it; negative `nowMs`: none. RESULT: the response's length, its gaps, hits,
 * invalid values, and 1 if it is full and Redis may hold more. The table then has the places of gaps, and of ENTRIES.
 */
export function takeEntries(
  count: u32,
  ofNamespace: u32,
  ofView: u32,
  wallMs: f64,
  ofHits: u32,
  nowMs: f64,
  ofMaxAgeMs: f64,
): void {
  namespace = ofNamespace;
  view = ofView;
  nowWallMs = wallMs;
  output = RESPONSE;
  // its bracket becomes the comma behind the last body
  hitsLength = ofHits > 2 ? ofHits : 1;
  if (ofHits > 2) store<u8>(outputStart + ofHits - 1, COMMA);
  hitsTaken = 0;
  isOutputFull = false;
  storedAtMs = nowMs;
  maxAgeMs = ofMaxAgeMs;
  gaps = 0;
  hits = 0;
  invalid = 0;
  let place = PLACES;
  for (let i: u32 = 0; i < count; i++) {
    pending = pendingAt(i);
    if (!pending.hasId) {
      addGap();
      continue;
    }
    const length = load<i32>(place, 4);
    // the rest of a reply may be many times as long as the output
    if (isOutputFull) addGap();
    else if (length < 0 || !take(REPLY + load<u32>(place), length > MAX_ENTRY_BYTES ? 0 : length)) reject();
    place += 8;
  }
  takeHits(hitsLength);
  const length = view === ENTRIES ? <u32>(output - RESPONSE) : closeArray(RESPONSE, output);
  store<u32>(RESULT, length, fields.RESPONSE_LENGTH);
  store<u32>(RESULT, gaps, fields.RESPONSE_GAPS);
  store<u32>(RESULT, hits, fields.RESPONSE_HITS);
  store<u32>(RESULT, invalid, fields.RESPONSE_INVALID);
  store<u32>(RESULT, <u32>isOutputFull, fields.RESPONSE_IS_FULL);
}

/** Adds the local hits before this place to the response. */
function takeHits(place: u32): void {
  if (view === ENTRIES || place === hitsTaken) return;
  const length = place - hitsTaken;
  // `add` leaves room for all of them, behind which is the window
  if (place > hitsLength || length > RESPONSE_BYTES - <u32>(output - RESPONSE)) unreachable();
  memory.copy(output, outputStart + hitsTaken, length);
  output += length;
  hitsTaken = place;
}

function addGap(): void {
  takeHits(pending.place);
  pending.idLength = GAP;
  pending.place = <u32>(output - RESPONSE);
  gaps++;
}

/** Leaves a gap for the present record, whose pointer may be wrong. */
function reject(): void {
  addGap();
  forgetId(hashOf(namespace, pending.keyAt, pending.keyLength));
}

/** Takes a value as the entry of the present record. Returns false if it is not usable or space is short. */
function take(entry: usize, length: u32): bool {
  const id = pending.idAt;
  const idLength = pending.idLength;
  if (!isValid(entry, length) || !hasKey(entry, 0, id, idLength)) {
    invalid++;
    return false;
  }
  if (!hasKey(entry, namespace, pending.keyAt, pending.keyLength)) return false;
  if (isOutdated(id, idLength, load<f64>(entry, LABEL_AT))) return false;
  showAt(entry, length, nowWallMs);
  if (storedAtMs >= 0) storeLocally(entry, length);
  return add(entry, length);
}

/** Returns true if a change of this id after the position `label` is known, or may exist, or if `label` is no number. */
function isOutdated(id: usize, length: u32, label: f64): bool {
  // the newest known change of this id, or of another key in its bucket
  const bucket = <u32>hashOf(0, id, length) & (WINDOW_BUCKETS - 1);
  const newest = load<f64>(WINDOW + ((<usize>bucket) << 3));
  return !(label >= load<f64>(FLOOR) && label >= newest);
}

/** Stores an entry in the local cache, or a sample; of ENTRIES, which are few, also each whose key is held, at any age. */
function storeLocally(entry: usize, length: u32): void {
  const key = pending.keyAt;
  const keyLength = pending.keyLength;
  const hash = hashOf(namespace, key, keyLength);
  const isHeld = view === ENTRIES && recordOf(<u32>(hash >> 32), namespace, key, keyLength) !== 0;
  if (!isHeld && !hasRoomInMain() && ++passed < STORED_ONE_OF) return;
  if (!isHeld) passed = 0;
  putEntry(entry, length, storedAtMs, storedAtMs + maxAgeMs * spread(hash));
}

/** Adds an entry, or its body, to the response. Returns false if space is short. */
function add(entry: usize, length: u32): bool {
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  const copied = view === ENTRIES ? length : view === FULL ? bodyLength : load<u32>(entry, SHARED_LENGTH_AT);
  const needed = copied + MAX_END_BYTES + hitsLength - hitsTaken;
  if (needed > RESPONSE_BYTES - <u32>(output - RESPONSE)) {
    isOutputFull = true;
    return false;
  }
  hits++;
  if (view === ENTRIES) {
    memory.copy(output, entry, length);
    pending.entryLength = length;
    pending.place = <u32>(output - RESPONSE);
    output += length;
    return true;
  }
  takeHits(pending.place);
  memory.copy(output, bodyOf(entry, length), copied);
  output = endBody(output + copied, view === FULL);
  return true;
}
