import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { VersionedKey } from '../auth/key-record.ts';
import { encodeAbsence } from '../hotels/encode.ts';
import { NO_CHANGES } from './messages.ts';
import { RedisWriter } from './redis-writer.ts';

const NOTHING = { entries: [], keys: [], changes: NO_CHANGES };
const A_HOTEL = { ...NOTHING, entries: [encodeAbsence('h1', 1)] };
const A_KEY = { ...NOTHING, keys: [['00', { version: 1, record: null }] as [string, VersionedKey]] };

/** Accepts every write; `marks` are the results of leaving a mark, one after the other. */
function writerTo(
  marks: (boolean | undefined | Promise<boolean>)[],
  lastMarker: string | null = 'the last marker',
): RedisWriter {
  const redis = { mark: async () => marks.shift() };
  const stores = { redis, hotels: { fill: async () => [] }, keys: { fill: async () => [] } };
  return new RedisWriter(stores as never, 'd', 'term', lastMarker);
}

it('while a node of a cluster is unavailable every change is suspect, even if the other nodes took it', async () => {
  const writer = writerTo([true, undefined, undefined, undefined, undefined, true, true]);
  const suspicions: (string | undefined)[] = [];
  for (const drained of [A_HOTEL, NOTHING, NOTHING, A_HOTEL, A_KEY, NOTHING, A_HOTEL])
    suspicions.push((await writer.write(drained)).suspect);
  expect(suspicions).toEqual([
    undefined,
    // it became unavailable: the generation ends once, and not while nothing changes
    'it does not answer',
    undefined,
    'it does not answer',
    'it does not answer',
    // it is available again
    'it is not known what it missed',
    undefined,
  ]);
});

it('a marker that is left too late is no proof that Redis has lost nothing', async () => {
  const late = Promise.withResolvers<boolean>();
  const writer = writerTo([late.promise, true, true], null);
  expect((await writer.write(NOTHING)).suspect).toBeUndefined();
  late.resolve(false);
  await setImmediate();
  expect(await writer.write(NOTHING)).toMatchObject({
    suspect: 'it is not known what it missed',
    lost: true,
  });
  expect((await writer.write(NOTHING)).suspect).toBeUndefined();
});

it('while a node hangs, the values are invalidated once, and then with each change', async () => {
  const hanging = new Promise<never>(() => {});
  const writer = writerTo([hanging, hanging, hanging, true, true]);
  const suspicions: (string | undefined)[] = [];
  for (const drained of [NOTHING, NOTHING, A_HOTEL, NOTHING, A_HOTEL])
    suspicions.push((await writer.write(drained)).suspect);
  expect(suspicions).toEqual([
    'it takes too long',
    undefined,
    'it takes too long',
    'it is not known what it missed',
    undefined,
  ]);
});
