import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { HotelReader } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import type { PositionWatch } from '../changes/position-watch.ts';
import type { Collections } from '../collections/collections.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { PageIndex } from '../hotels/page-index.ts';
import type { LogEvent, News } from '../log/follower.ts';
import type { Freshness } from '../log/freshness.ts';
import type { LogRow } from '../log/log-connection.ts';
import type { Window } from '../log/window.ts';
import type { Postgres } from '../postgres/client.ts';
import { type Applied, prefixOf } from '../postgres/origin.ts';
import type { FollowedLog } from './workers.ts';

/** Parts of a worker that follow the log. */
interface FollowingParts {
  window: Window;
  freshness: Freshness;
  reader: HotelReader;
  local: LocalCache;
  pageIndex: PageIndex;
  collections: Collections;
  apiKeys: ApiKeyCache;
  logPositions: PositionWatch;
  postgres: Pick<Postgres, 'reachable'>;
  /** called when another history is followed: a connection to the previous server may be open */
  onHistory: () => void;
  /** kept up to date here */
  applied: WorkerApplied;
  /** maximum time of a read of PostgreSQL */
  longestReadMs: number;
}

/**
 * What a worker has applied, with the prefix of its names in Redis: labels are comparable while it is the same. `secret`: of the
 * history, signs keys in Redis.
 */
export type WorkerApplied = Applied & { prefix: string; secret: Uint8Array };

/** Applies the log to the caches of one worker. */
export class LogApplier {
  readonly #parts: FollowingParts;
  readonly #applied: WorkerApplied;

  constructor(parts: FollowingParts) {
    this.#parts = parts;
    this.#applied = parts.applied;
  }

  /** Begins where the primary process is. */
  start(log: FollowedLog): void {
    const { position, transaction, isListing, asOfMs } = log;
    this.#begin(log);
    this.#parts.window.load(log.window);
    this.#apply({ rows: [], cursor: { position, transaction }, isListing, asOfMs });
  }

  /** Applies what happens to the log, each event after the ones before. */
  receive(event: LogEvent): void {
    this.#parts.window.follow(event);
    switch (event.type) {
      case 'history':
        this.#begin(event);
        this.#parts.onHistory();
        break;
      case 'restarted':
        this.#serverRestarted(event.server);
        break;
      case 'news':
        this.#apply(event);
        break;
      case 'reachable':
        this.#parts.postgres.reachable();
        break;
    }
  }

  /** Begins to follow a history: everything cached is invalid. */
  #begin({ history, server, position, secret }: Applied & { secret: Uint8Array }): void {
    const { freshness, local, logPositions } = this.#parts;
    freshness.lost();
    local.clear();
    this.#applied.history = history;
    this.#applied.position = position;
    this.#applied.secret = secret;
    this.#useServer(server);
    logPositions.follow(history);
  }

  /**
   * Reads this server alone, and uses other names in Redis, from now on. Forgets what is cached, except hotels and absences in
   * the local cache.
   */
  #useServer(server: string): void {
    const { reader, collections, pageIndex, apiKeys } = this.#parts;
    reader.loader.forgetAll();
    collections.forget();
    pageIndex.forget();
    apiKeys.clear();
    this.#applied.server = server;
    this.#applied.prefix = prefixOf(this.#applied);
  }

  /**
   * Handles a restart of the server, which goes on with the history: an older data folder may have been put back. It has all
   * changes up to the applied position, so all that were committed when the worker was last current. What was read later may
   * show a change that is lost now. Its label does not show that, because a change is visible before it has a position.
   */
  #serverRestarted(server: string): void {
    const { freshness, local, longestReadMs } = this.#parts;
    local.dropSince(freshness.asOfMs - longestReadMs);
    this.#useServer(server);
  }

  /** Applies rows, each at its position. The waits for the log and `freshness` are updated after the last row. */
  #apply({ rows, cursor, isListing, asOfMs }: News): void {
    const { freshness, logPositions } = this.#parts;
    for (const row of rows) this.#applyRow(row);
    if (cursor) {
      this.#applied.position = cursor.position;
      logPositions.announced(cursor, isListing);
    }
    if (asOfMs !== undefined) freshness.current(asOfMs);
  }

  #applyRow(row: LogRow): void {
    // what is read because of the row must not come from a server that lacks it
    this.#applied.position = row.position;
    const { reader, local, pageIndex, collections, apiKeys, logPositions } = this.#parts;
    switch (row.kind) {
      case 'hotels':
        for (const [i, id] of row.ids.entries()) {
          this.#drop('id', id);
          this.#drop('channel', row.channelIds[i]);
          this.#drop('registry', row.registryIds[i]);
          if (row.moves) pageIndex.moved(id);
        }
        collections.hotelsChanged(row);
        break;
      case 'keys':
        for (const sha256 of row.ids) apiKeys.changed(sha256);
        logPositions.keysChanged();
        break;
      case 'members':
        collections.changed(row.collection!, row.ids);
        break;
      case 'collections':
        for (const id of row.ids) collections.changed(id, null);
        break;
      case 'all_hotels':
        reader.loader.forgetAll();
        local.clear();
        collections.forget();
        if (row.moves) pageIndex.forget();
        break;
      case 'all_keys':
        apiKeys.clear();
        logPositions.keysChanged();
        break;
      case 'all_collections':
        collections.forget();
        break;
    }
  }

  #drop(namespace: Namespace, key: string | null | undefined): void {
    if (!key) return;
    this.#parts.reader.loader.forget(namespace, key);
    this.#parts.local.drop(namespace, key);
  }
}
