import type { Sql } from 'postgres';
import { clearTimer, every, type Timer, wallMs } from '../lib/clock.ts';
import { BEGIN_WRITING, completed } from '../postgres/connect.ts';

/* The use of API keys: workers count it, and the primary process writes it. */

/** What was served for one key. */
export interface KeyUsage {
  keyId: string;
  requests: number;
  hotels: number;
  /** of bodies as sent */
  bytes: number;
}

const WRITE_EVERY_MS = 60_000;
/** Maximum number of keys, by day, that are kept while PostgreSQL is unavailable. Others are not counted then. */
const MAX_UNWRITTEN = 100_000;
/** insufficient_privilege */
const FORBIDDEN = '42501';

/** Counts the use of keys in a worker, between two reports. */
export class UsageCounter {
  #byKey = new Map<string, KeyUsage>();

  /** Counts a response, unless the client got none, or was rejected by its limit or for a fault of the service. */
  count(keyId: string, status: number, hotels: number, bytes: number): void {
    if (status === 0 || status === 429 || status >= 500) return;
    let usage = this.#byKey.get(keyId);
    if (usage === undefined) {
      usage = { keyId, requests: 0, hotels: 0, bytes: 0 };
      this.#byKey.set(keyId, usage);
    }
    usage.requests++;
    usage.hotels += hotels;
    usage.bytes += bytes;
  }

  /** Returns what was counted since the last call. */
  take(): KeyUsage[] {
    const usage = [...this.#byKey.values()];
    this.#byKey = new Map();
    return usage;
  }
}

/** Writes the use of keys for an instance: what its workers report, once a minute, in one statement. */
export class UsageWriter {
  readonly #open: () => Sql;
  readonly #onFailure: (reason: string) => void;
  /** by day and key */
  #kept = new Map<string, KeyUsage & { day: string }>();
  #isAllowed = true;
  #writing = Promise.resolve();
  readonly #timer: Timer;

  /** `open`: opens a connection for a moment. `onFailure`: called when nothing could be written. */
  constructor(open: () => Sql, onFailure: (reason: string) => void) {
    this.#open = open;
    this.#onFailure = onFailure;
    this.#timer = every(() => void this.write(), WRITE_EVERY_MS);
  }

  add(usage: readonly KeyUsage[]): void {
    if (this.#isAllowed) this.#keep(usage, new Date(wallMs()).toISOString().slice(0, 10));
  }

  /** Writes what is kept. What could not be written is kept; what may have been written is not. */
  write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async close(): Promise<void> {
    clearTimer(this.#timer);
    await this.write();
  }

  async #write(): Promise<void> {
    const counted = [...this.#kept.values()];
    if (counted.length === 0) return;
    this.#kept = new Map();
    let isSent = false;
    let sql: Sql | undefined;
    try {
      sql = this.#open();
      completed(await sql`select`);
      isSent = true;
      const rows = counted.map(({ keyId, ...numbers }) => ({ key_id: keyId, ...numbers }));
      const json = JSON.stringify(rows).replaceAll("'", "''");
      completed(
        await sql.unsafe(`${BEGIN_WRITING}; select hotel_api_count_usage('${json}'); commit`).simple(),
      );
    } catch (error) {
      const { code, severity, message } = error as Error & { code?: string; severity?: string };
      this.#isAllowed = code !== FORBIDDEN;
      // only errors of the server, which has rolled back then, have a severity
      if (this.#isAllowed && (!isSent || severity !== undefined))
        for (const { day, ...usage } of counted) this.#keep([usage], day);
      this.#onFailure(message);
    } finally {
      sql?.end({ timeout: 1 }).catch(() => {});
    }
  }

  #keep(usage: readonly KeyUsage[], day: string): void {
    for (const each of usage) {
      const name = `${day} ${each.keyId}`;
      const kept = this.#kept.get(name);
      if (kept) {
        kept.requests += each.requests;
        kept.hotels += each.hotels;
        kept.bytes += each.bytes;
      } else if (this.#kept.size < MAX_UNWRITTEN) this.#kept.set(name, { ...each, day });
    }
  }
}
