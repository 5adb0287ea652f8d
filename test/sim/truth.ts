import type { HotelRow } from '../../src/hotels/row.ts';
import type { ApiKey, Data } from './sequencer.ts';
import { isMember } from './statements.ts';
import { entryOf } from './world.ts';

/** A value and the time from which it was the truth, up to the next one. */
interface Span<Value> {
  fromMs: number;
  value: Value;
}

/** What a value was, at all times. */
export class Timeline<Value> {
  readonly spans: Span<Value>[];

  constructor(first: Value) {
    this.spans = [{ fromMs: -Infinity, value: first }];
  }

  add(fromMs: number, value: Value): void {
    const last = this.spans.at(-1)!;
    if (last.value === value) return;
    if (last.fromMs === fromMs) last.value = value;
    else this.spans.push({ fromMs, value });
  }

  /** Returns the spans that overlap a time, the last first, each with its end. */
  *within(lowMs: number, highMs: number): Generator<Span<Value> & { untilMs: number }> {
    for (let i = this.spans.length - 1; i >= 0; i--) {
      const span = this.spans[i]!;
      const untilMs = this.spans[i + 1]?.fromMs ?? Infinity;
      if (untilMs < lowMs) return;
      if (span.fromMs <= highMs) yield { ...span, untilMs };
    }
  }
}

/** Everything that was ever committed, by time. */
export class Truth {
  readonly #hotels = new Map<string, Timeline<HotelRow | null>>();
  readonly #keys = new Map<string, Timeline<ApiKey | null>>();
  readonly #members = new Map<string, Timeline<boolean>>();
  readonly tables: Timeline<Data>;

  constructor(first: Data) {
    this.tables = new Timeline(first);
    this.changed(-1, first, undefined);
  }

  /** Notes what is true from now on. */
  changed(nowMs: number, data: Data, before: Data | undefined): void {
    this.tables.add(nowMs, data);
    if (data.hotels !== before?.hotels) {
      for (const [id, row] of before?.hotels ?? [])
        if (data.hotels.get(id) !== row) for (const name of namesOf(row)) this.hotel(name).add(nowMs, null);
      for (const [id, row] of data.hotels)
        if (before?.hotels.get(id) !== row) for (const name of namesOf(row)) this.hotel(name).add(nowMs, row);
      // a key that one hotel lost and another has kept
      for (const row of data.hotels.values())
        for (const name of namesOf(row)) this.hotel(name).add(nowMs, row);
    }
    if (data.keys !== before?.keys) {
      for (const sha256 of before?.keys.keys() ?? [])
        if (!data.keys.has(sha256)) this.key(sha256).add(nowMs, null);
      for (const [sha256, key] of data.keys) this.key(sha256).add(nowMs, key);
    }
    if (data.members !== before?.members || data.collections !== before?.collections) {
      const names = new Set([...(before?.members.keys() ?? []), ...data.members.keys()]);
      for (const collection of names) {
        const ids = new Set([
          ...(before?.members.get(collection) ?? []),
          ...(data.members.get(collection) ?? []),
        ]);
        for (const id of ids) this.member(collection, id).add(nowMs, isMember(data, collection, id));
      }
    }
  }

  /** `name`: the kind of the key, `id`, `channel` or `registry`, and the key */
  hotel(name: string): Timeline<HotelRow | null> {
    return entryOf(this.#hotels, name, () => new Timeline(null));
  }

  key(sha256: string): Timeline<ApiKey | null> {
    return entryOf(this.#keys, sha256, () => new Timeline(null));
  }

  member(collection: string, id: string): Timeline<boolean> {
    return entryOf(this.#members, `${collection} ${id}`, () => new Timeline(false));
  }
}

function namesOf({ id, channel_id, registry_id }: HotelRow): string[] {
  const names = [`id ${id}`];
  if (channel_id !== null) names.push(`channel ${channel_id}`);
  if (registry_id !== null) names.push(`registry ${registry_id}`);
  return names;
}
