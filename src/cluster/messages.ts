import type { Documents } from '../api-docs/documents.ts';
import type { FeedMessage } from '../change-feed/messages.ts';
import type { Config } from '../config/config.ts';
import type { FeedPosition } from '../postgres/replica.ts';
import type { LeaseGrant, LeaseRequest } from '../rate-limit/rate-limit.ts';

/** Data that a worker needs to open its port, with the state of the change feed. */
export interface Start {
  type: 'start';
  history: string;
  generation: string;
  /** false if changes may be missed */
  isUp: boolean;
  /** time of the last message, by `systemMs`; -Infinity if there was none */
  receivedAtMs: number;
  /** the same for changes of the time in which PostgreSQL was available: changes since then may be unknown */
  silentSinceMs: number;
  /** the last received position */
  position: FeedPosition | undefined;
  config: Config;
  documents: Documents;
  /** secret of the database's history, which is never logged */
  secret: Uint8Array;
  /** number of the worker, from 1; a replacement has the number of the worker it replaces */
  number: number;
  /** maximum time of the warm-up; 0 for a replacement while no other worker serves */
  warmUpMs: number;
}

/** Messages from the primary to a worker. */
export type ToWorker =
  /** earlier messages, `drain` excepted, are not for this worker */
  | Start
  /** `receivedAtMs`: by `systemMs`, because a stalled process reads the message later */
  | { type: 'feed'; message: FeedMessage; receivedAtMs: number }
  | { type: 'reconnected' }
  /** changes may have been missed */
  | { type: 'reset' }
  /** the database follows another history: every cached value is invalid */
  | { type: 'history'; history: string; generation: string; secret: Uint8Array }
  | { type: 'report metrics' }
  | { type: 'grant'; grants: LeaseGrant[] }
  /** grants of shared windows to another worker, sent before that worker gets them */
  | { type: 'grants of others'; grants: LeaseGrant[] }
  | { type: 'drain' };

/** Messages from a worker to the primary. */
export type ToPrimary =
  /** waits for `start` */
  | { type: 'up' }
  | { type: 'listening' }
  /**
   * its metrics, and the `FeedSilence` at `atMs` by `systemMs`, once a second and on request; also a sign that it is alive
   */
  | {
      type: 'metrics';
      metrics: object[];
      defaultMetrics: object[] | undefined;
      feedSilenceMs: number;
      atMs: number;
    }
  /** requests leases of rate limits; answered by `grant` */
  | { type: 'leases'; requests: LeaseRequest[] }
  /** the worker failed; the reason is for the primary's log too */
  | { type: 'failed'; reason: string };
