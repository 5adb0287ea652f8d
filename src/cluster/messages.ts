import type { Documents } from '../api-docs/documents.ts';
import type { FeedMessage } from '../change-feed/messages.ts';
import type { Config } from '../config/config.ts';
import type { FeedPosition } from '../postgres/replica.ts';
import type { LeaseGrant, LeaseRequest } from '../rate-limit/rate-limit.ts';

/** How the change feed stands when a worker starts. */
export interface Feed {
  /** the history of the database that it tells of */
  history: string;
  generation: string;
  /** when it was last heard, by the clock of the system; -Infinity: it is not heard at present */
  receivedAtMs: number;
  /** what it said last of changes */
  position: FeedPosition | undefined;
}

/** What a worker needs to know to open its port. */
export interface Start extends Feed {
  type: 'start';
  config: Config;
  documents: Documents;
  /** of the database's history: never to be logged */
  secret: Uint8Array;
  /** its own, from 1, or that of the one whose place it takes */
  number: number;
}

/** What the primary tells its workers. */
export type ToWorker =
  /** what comes before it, but for `drain`, is not for the worker */
  | Start
  /** `heardAtMs`: by the clock of the system, for a process that stood still reads it later */
  | { type: 'feed'; message: FeedMessage; receivedAtMs: number }
  /** the connection of the change feed was lost and stands again */
  | { type: 'reconnected' }
  /** changes may have been missed */
  | { type: 'reset' }
  /** the database follows another history: nothing that is cached is true there */
  | { type: 'history'; history: string; generation: string; secret: Uint8Array }
  | { type: 'report metrics' }
  | { type: 'grant'; grants: LeaseGrant[] }
  /** grants of shared windows to another worker, sent before that worker gets them */
  | { type: 'grants of others'; grants: LeaseGrant[] }
  | { type: 'drain' };

/** What a worker tells the primary. */
export type ToPrimary =
  /** waits for `start` */
  | { type: 'up' }
  | { type: 'listening' }
  /** its metrics, once a second and when asked: also a sign of life */
  | { type: 'metrics'; metrics: object[]; defaultMetrics: object[] | undefined }
  /** wants to admit requests of limits that hold for all workers together; answered by `grant` */
  | { type: 'ask'; asks: LeaseRequest[] }
  /** cannot go on; the reason is for the log of the primary too */
  | { type: 'failed'; reason: string };
