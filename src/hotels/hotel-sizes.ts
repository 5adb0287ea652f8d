import { RecentValue } from '../lib/recent-value.ts';
import type { Found } from './entry.ts';

/** Bytes of a hotel until larger ones of the same API key are known. */
const USUAL_BYTES = 2 * 1024;
/** Hotels of a response, or of a part of it, above which their mean is typical of the key: a part of large ones has as many. */
const MIN_TYPICAL = 32;
/** Size above which the hotels of a key are large. */
const LARGE_BYTES = 8 * 1024;
/** Maximum size of a hotel. */
export const MAX_HOTEL_BYTES = 64 * 1024;

/**
 * Returns the owner by whom pages of the list and of changes are noted: their hotels may be larger than those of the batches of
 * the same key.
 */
export const pagesOf = (owner: string): string => `pages ${owner}`;

/** Estimates the hotels that an API key reads next by those that it has read. */
export class HotelSizes {
  /** mean of the hotels that were looked up beyond the local cache */
  readonly #lookups = new RecentValue(USUAL_BYTES);
  /** maximum of the means of responses, which is forgotten with time alone */
  readonly #largest = new RecentValue(USUAL_BYTES);
  /** supposed size after reads that timed out: they measured nothing */
  readonly #supposed = new RecentValue(USUAL_BYTES);

  /** Returns the expected bytes of a hotel of this API key. */
  of(owner: string): number {
    return Math.max(this.#lookups.get(owner), this.#largest.get(owner), this.#supposed.get(owner));
  }

  /** Returns the number of hotels that have so many bytes. */
  atOnce(owner: string, bytes: number): number {
    return Math.floor(bytes / Math.max(this.#largest.get(owner), this.#supposed.get(owner)));
  }

  /** Returns the number of usual hotels that have as many bytes as one in a response. */
  weightOf(owner: string): number {
    return this.#largest.get(owner) / USUAL_BYTES;
  }

  /** Returns true if the last hotels that were looked up were large on average. */
  areLarge(owner: string): boolean {
    return owner !== '' && this.#lookups.get(owner) > LARGE_BYTES;
  }

  /** Takes the number and the bytes of hotels in a response, or in a part of it. */
  note(owner: string, hotels: number, bytes: number): void {
    if (hotels >= MIN_TYPICAL) this.#largest.noteMaximum(owner, bytes / hotels);
  }

  /** Takes the hotels that were looked up for a request. */
  noteLookup(owner: string, found: readonly (Found | undefined)[]): void {
    const [hotels, bytes] = sumOf(found);
    if (hotels > 0) this.#lookups.noteMean(owner, hotels, bytes);
  }

  /** Notes that hotels could not be read in time, because of their size perhaps. */
  wasTooMuch(owner: string): void {
    this.#supposed.noteMaximum(owner, Math.min(4 * this.of(owner), MAX_HOTEL_BYTES));
  }
}

/** Returns the number of hotels that exist, and their bytes. */
export function sumOf(found: readonly (Found | undefined)[]): [hotels: number, bytes: number] {
  let [hotels, bytes] = [0, 0];
  for (const hotel of found) {
    if (!hotel) continue;
    hotels++;
    bytes += hotel.bytes.length;
  }
  return [hotels, bytes];
}
