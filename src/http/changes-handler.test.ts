import { afterEach, beforeEach, expect, it } from 'vitest';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { ChangesReader } from '../changes/changes-reader.ts';
import type { Collections } from '../collections/collections.ts';
import { realClocks, showMonotonic } from '../lib/clock.fixture.ts';
import { changesOperation } from './changes-handler.ts';
import type { Exchange } from './exchange.ts';

const principal = { keyId: 'k', collection: 'c', view: 'full' };

let nowMs: number;
beforeEach(() => {
  nowMs = 1_000;
  showMonotonic(() => nowMs);
});
afterEach(realClocks);

/** Requests changes; each page is read at once, and waits so long for its turn. Returns the pages that were sent. */
async function request(turnsMs: number[], members: string[], pages: string[][]): Promise<string[]> {
  const sent: string[] = [];
  const reader = {
    upToDate: () => undefined,
    page: async () => {
      const ids = pages.shift()!;
      return { body: Buffer.from(ids.join()), written: 't', next: principal, ids, readAtMs: nowMs };
    },
    eventLoop: {
      run: async (_owner: string, _size: number, work: () => unknown) => {
        nowMs += turnsMs.shift()!;
        return work();
      },
    },
  } as unknown as ChangesReader;
  const collections = {
    membersAmong: async (_: string, ids: string[]) => new Set(ids.filter((id) => members.includes(id))),
  } as unknown as Collections;
  const exchange = {
    principal,
    headers: { apiKey: 'key' },
    ok: (body: Buffer) => sent.push(String(body)),
  } as unknown as Exchange;
  const apiKeys = { find: () => principal } as unknown as ApiKeyCache;
  await changesOperation(reader, collections, '', apiKeys).respond(exchange, '');
  return sent;
}

it('a page that waited is read again if a hotel of it has left the collection', async () => {
  const pages = () => [['stays', 'left'], ['stays']];
  expect(await request([700, 700], ['stays'], pages())).toEqual(['stays']);
  expect(await request([500], ['stays'], pages())).toEqual(['stays,left']);
  expect(await request([5_000], ['stays', 'left'], pages())).toEqual(['stays,left']);
});
