import { beforeEach, expect, it } from 'vitest';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { ChangesReader } from '../changes/changes-reader.ts';
import type { Collections } from '../collections/collections.ts';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { changesOperation } from './changes-handler.ts';
import type { Exchange } from './exchange.ts';

const principal = { keyId: 'k', collection: 'c', view: 'full' };

let nowMs: number;
let isSentInTurn: boolean;
beforeEach(() => {
  isSentInTurn = false;
  nowMs = 1_000;
  showMonotonic(() => nowMs);
});

/** Requests changes; each page is read at once, and waits so long for its turn. Returns the pages that were sent. */
async function request(
  turnsMs: number[],
  members: string[],
  pages: string[][],
  areHeld = true,
): Promise<string[]> {
  const sent: string[] = [];
  const reader = {
    upToDate: () => undefined,
    page: async () => {
      const ids = pages.shift()!;
      return { body: Buffer.from(ids.join()), written: 't', next: principal, ids, readAtMs: nowMs };
    },
    eventLoop: {
      run: (_owner: string, _size: number, work: () => unknown) => {
        nowMs += turnsMs.shift()!;
        const working = work();
        if (sent.length > 0) isSentInTurn = true;
        return Promise.resolve(working);
      },
    },
  } as unknown as ChangesReader;
  const collections = {
    membersAmong: (_: string, ids: string[]) => {
      const among = new Set(ids.filter((id) => members.includes(id)));
      return areHeld ? among : Promise.resolve(among);
    },
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
  // the event loop counts what is sent within a turn
  expect(isSentInTurn).toBe(true);
  expect(await request([700, 700], ['stays'], pages(), false)).toEqual(['stays']);
});
