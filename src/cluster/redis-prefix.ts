import { hash } from 'node:crypto';
import type { Applied } from '../postgres/label.ts';

/**
 * Returns the prefix of the names in Redis. Labels are comparable within one history, and only while the server runs: an
 * older data folder can be put back by a restart alone, and its history then gives out the same positions again.
 */
export function prefixOf({ history, server }: Pick<Applied, 'history' | 'server'>): string {
  return hash('sha256', `${history} ${server}`, 'base64url').slice(0, 12);
}
