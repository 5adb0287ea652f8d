import { beforeAll, expect, it } from 'vitest';
import { randomFrom } from '../../bench/draws.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

const HOTELS = 1_500;

let service: Service;
/** by number, as a GET by id returns it */
const bodies: Record<'full' | 'narrow', Map<number, string>> = { full: new Map(), narrow: new Map() };

/** Some ids are not ASCII, and some hotels are large. */
const idOf = (i: number) => (i % 97 === 0 ? `hôtel-${i}` : `h${i}`);
const channelOf = (i: number) => (i % 89 === 0 ? `kanal-ä-${i}` : `CH-${i}`);

beforeAll(async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({
    id: idOf(i),
    channel_id: channelOf(i),
    registry_id: 700_000 + i,
    description: 'Zimmer mit Aussicht. '.repeat(i % 101 === 0 ? 2_900 : i % 40),
  }));
  service = await startService({ hotels, env: { L1_MAX_BYTES: '0' } });
  for (const key of ['full', 'narrow'] as const) {
    for (let offset = 0; offset < HOTELS; offset += 100) {
      const { text } = await service.get(`/hotels?limit=100&offset=${offset}`, { key });
      for (const hotel of JSON.parse(text)) {
        bodies[key].set(Number(/\d+$/.exec(hotel.id)![0]), JSON.stringify(hotel));
      }
    }
  }
});

/**
 * Requests a random batch with absent and repeated ids, and checks the response. Returns the status: a busy service
 * may reject a batch.
 */
async function sendDrawn(seed: number): Promise<number> {
  const draw = randomFrom(seed);
  const random = (below: number) => Math.floor(draw() * below);
  const numbers = Array.from({ length: 1 + random(seed % 3 === 0 ? 1_000 : 30) }, () => random(HOTELS + 50));
  const isRegistry = seed % 2 === 0;
  const key = isRegistry || random(2) === 0 ? 'full' : 'narrow';
  const response = isRegistry
    ? await service.post('/hotels/registry/batch', { registry_ids: numbers.map((i) => 700_000 + i) }, { key })
    : await service.post('/hotels/channel/batch', { channel_ids: numbers.map(channelOf) }, { key });
  const expected = [...new Set(numbers)].filter((i) => i < HOTELS).map((i) => bodies[key].get(i)!);
  if (response.status !== 503)
    expect(response.text === `[${expected.join()}]`, `the answer to seed ${seed}`).toBe(true);
  return response.status;
}

const seeds = Array.from({ length: 30 }, (_, i) => i + 1);

it('batches without a local cache are correct for any number of concurrent ones, cold and warm', async () => {
  await Promise.all(seeds.map(sendDrawn));
  await Promise.all(seeds.map(sendDrawn));
});
