import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, HttpResponse } from '../support/client.ts';

const RESPONSE_TIMEOUT_MS = 10_000;

export interface Request {
  path: string;
  /** body of a POST; without it the request is a GET */
  body?: Buffer;
}

/** Returns a batch request for the hotels of these numbers. */
export function batchRequest(namespace: 'channel' | 'registry', numbers: number[]): Request {
  const ids =
    namespace === 'channel'
      ? { channel_ids: numbers.map((i) => `CH-${i}`) }
      : { registry_ids: numbers.map((i) => 500_000 + i) };
  return { path: `/hotels/${namespace}/batch`, body: Buffer.from(JSON.stringify(ids)) };
}

/** Resolves with the response, or with the kind of failure. */
export function send(client: Client, { path, body }: Request): Promise<HttpResponse | 'lost' | 'silent'> {
  const requesting = client.request(path, body ? { method: 'POST' } : {}, body).catch(() => 'lost' as const);
  return Promise.race([requesting, sleep(RESPONSE_TIMEOUT_MS, 'silent' as const, { ref: false })]);
}
