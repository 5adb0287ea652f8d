import { beforeAll, describe, expect, it } from 'vitest';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

const HOTELS = 1_500;
const PATIENCE = { timeout: 60_000, interval: 20 };

let service: Service;
/** by number, as a GET by id answers it */
const bodies: Record<'full' | 'narrow', Map<number, string>> = { full: new Map(), narrow: new Map() };

/** A few of the ids are no plain ASCII, a few hotels are large. */
const idOf = (i: number) => (i % 97 === 0 ? `hôtel-${i}` : `h${i}`);
const channelOf = (i: number) => (i % 89 === 0 ? `kanal-ä-${i}` : `CH-${i}`);

beforeAll(async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({
    id: idOf(i),
    channel_id: channelOf(i),
    registry_id: 700_000 + i,
    description: 'Zimmer mit Aussicht. '.repeat(i % 101 === 0 ? 5_000 : i % 40),
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

/** Numbers from a seed: a linear congruential generator, Numerical Recipes' constants. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/**
 * Asks for a batch drawn from a seed, absent ones and repeated ones among it, and holds the answer against it. Returns
 * the status: a busy service may reject a batch.
 */
async function askDrawn(seed: number): Promise<number> {
  const random = randomFrom(seed);
  const numbers = Array.from({ length: 1 + random(seed % 3 === 0 ? 1_000 : 30) }, () => random(HOTELS + 50));
  const isRegistry = seed % 2 === 0;
  const key = isRegistry || random(2) === 0 ? 'full' : 'narrow';
  const answer = isRegistry
    ? await service.post('/hotels/registry/batch', { registry_ids: numbers.map((i) => 700_000 + i) }, { key })
    : await service.post('/hotels/channel/batch', { channel_ids: numbers.map(channelOf) }, { key });
  const expected = [...new Set(numbers)].filter((i) => i < HOTELS).map((i) => bodies[key].get(i)!);
  if (answer.status !== 503)
    expect(answer.text === `[${expected.join()}]`, `the answer to seed ${seed}`).toBe(true);
  return answer.status;
}

async function askedOf(tier: string, answer: string): Promise<number> {
  const line = new RegExp(
    `^hotel_api_cache_answers_total{.*tier="${tier}",answer="${answer}".*} (\\d+)$`,
    'm',
  );
  return Number(line.exec(await service.metrics())?.[1] ?? 0);
}

const seeds = Array.from({ length: 60 }, (_, i) => i + 1);

describe('batches without a local cache', () => {
  it('are right for any number of concurrent batches, cold and warm', async () => {
    await Promise.all(seeds.map(askDrawn));
    await Promise.all(seeds.map(askDrawn));
  });

  it('are served by Redis alone once it holds the hotels', async () => {
    const all = Array.from({ length: 900 }, (_, i) => i).filter((i) => i % 89 !== 0);
    const ask = () => service.post('/hotels/channel/batch', { channel_ids: all.map(channelOf) });
    const nothingMissed = async () => {
      const missed = await askedOf('redis', 'miss');
      await ask();
      // what a worker counted is told once a second
      await expect.poll(() => askedOf('redis', 'hit'), PATIENCE).toBeGreaterThan(0);
      return (await askedOf('redis', 'miss')) - missed;
    };
    await ask();
    await expect.poll(nothingMissed, PATIENCE).toBe(0);
    expect((await ask()).json().length).toBe(all.length);
  });

  it('are right while the connections to Redis are repeatedly closed', async () => {
    const statuses: number[] = [];
    const done = Promise.all(
      Array.from({ length: 6 }, async (_, lane) => {
        for (let i = 0; i < 15; i++) statuses.push(await askDrawn(1_000 + lane * 100 + i));
      }),
    ).then(() => true);
    let cuts = 0;
    const isDone = () => Promise.race([done, new Promise((resolve) => setImmediate(resolve, false))]);
    while (!(await isDone())) {
      // all but the one that says so
      await service.redis!.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      cuts++;
    }
    expect(cuts).toBeGreaterThan(10);
    expect(statuses).toContain(200);
    expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
  });

  it('ignore values of Redis that are older than a received change', async () => {
    const ask = async () =>
      (await service.post('/hotels/channel/batch', { channel_ids: ['CH-1', 'CH-2'] })).json();
    await ask();
    const [one] = await ask();
    await service.sql`update hotels set name = ${`${one.name}, renamed`} where channel_id = 'CH-1'`;
    await expect.poll(async () => (await ask())[0].name, PATIENCE).toBe(`${one.name}, renamed`);
    await service.sql.begin(async (sql) => {
      await sql`update hotels set channel_id = 'elsewhere' where channel_id = 'CH-1'`;
      await sql`update hotels set channel_id = 'CH-1' where channel_id = 'CH-2'`;
      await sql`update hotels set channel_id = 'CH-2' where channel_id = 'elsewhere'`;
    });
    await expect.poll(async () => (await ask())[1].name, PATIENCE).toBe(`${one.name}, renamed`);
  });
});
