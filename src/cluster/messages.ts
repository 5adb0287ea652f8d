import type { KeyUsage } from '../auth/usage.ts';
import type { Config } from '../config/config.ts';
import type { LogEvent } from '../log/follower.ts';
import type { WindowCopy } from '../log/window.ts';
import type { Applied } from '../postgres/label.ts';
import type { LeaseGrant, LeaseRequest } from '../rate-limit/rate-limit.ts';

/** What the primary process knows of the log when a worker begins. */
export interface FollowedLog extends Applied {
  /** that of the applied position */
  transaction: string;
  /** secret of the history, which is never logged */
  secret: Uint8Array;
  /** time as of which the instance is current, by `monotonicMs`; undefined: it never was, or PostgreSQL may have answered others since */
  asOfMs: number | undefined;
  /** see `News` */
  isListing: boolean;
  window: WindowCopy;
}

/** Data that a worker needs to open its port. */
export interface Start {
  type: 'start';
  log: FollowedLog;
  /** true: DATABASE_URL leads through a pooler */
  pooled: boolean;
  config: Config;
  /** number of the worker, from 1; a replacement has the number of the worker it replaces */
  number: number;
  /** maximum time of the warm-up; 0 for a replacement while no other worker serves */
  warmUpMs: number;
}

/** Messages from the primary to a worker. */
export type ToWorker =
  /** the first message that a worker handles; messages before it are dropped, except `drain` */
  Start | LogEvent | { type: 'report metrics' } | { type: 'grant'; grants: LeaseGrant[] } | { type: 'drain' };

/** Messages from a worker to the primary. */
export type ToPrimary =
  /** waits for `start` */
  | { type: 'up' }
  | { type: 'listening' }
  /** once a second */
  | { type: 'alive' }
  /** its metrics, on request */
  | { type: 'metrics'; metrics: object[] }
  /** PostgreSQL has answered although the worker was not current for long: it is no outage for a later worker either */
  | { type: 'late answer'; atMs: number }
  /** use of keys since its last message of this kind */
  | { type: 'usage'; usage: KeyUsage[] }
  /** requests leases of rate limits; answered by `grant` */
  | { type: 'leases'; requests: LeaseRequest[] };
