import type { LogKind } from '../observability/metrics.ts';

/** Row of the log that caches apply. */
export interface LogRow {
  /** of its last id */
  position: number;
  kind: LogKind;
  /** of hotels: they were inserted, deleted or renamed, which moves the positions of the list; of all hotels: some may have been */
  moves: boolean;
  /** hotels, keys by their sha256 in hexadecimal, or collections */
  ids: string[];
  /** of hotels, their present other ids, null where there is none */
  channelIds: (string | null)[];
  registryIds: (string | null)[];
  /** of members, which always have one */
  collection: string | null;
}

/** A place in a history of the database. */
export interface LogPlace {
  position: number;
  /** identifies the row there among those of a lost future */
  transaction: string;
}
