import { beforeAll, describe, expect, it } from 'vitest';
import { AllWorkers } from '../support/all-workers.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { Mirror } from '../support/mirror.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { pathOf } from '../support/programs.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('faketime', 'redis');

const DAY_MS = 86_400_000;
/** Tells when the mirror knows midnight: it is listed last. */
const LAST = 'zz-ends';

let clock: FakeClock;
let midnightMs: number;
let service: Service;
let allWorkers: AllWorkers;

const day = (days: number) => new Date(midnightMs + days * DAY_MS).toISOString().slice(0, 10);

function certified(id: string, from: number, until: number) {
  const certification_url = 'https://badge.example/';
  return { id, certified_from: day(from), certified_until: day(until), certification_url };
}

beforeAll(async () => {
  clock = await FakeClock.make((await pathOf('faketime'))!);
  midnightMs = Math.ceil(clock.now() / DAY_MS) * DAY_MS;
  await clock.set(midnightMs - 3_600_000);
  const hotels = [
    certified('always', -9, 9),
    certified('begins', 0, 9),
    certified('ends', -9, -1),
    certified('over', -9, -2),
    { id: 'never' },
    certified(LAST, -9, -1),
  ];
  // the sequencer knows the day from its server
  const own = await ownPostgres(50, undefined, {}, clock.env);
  const database = databaseAt(own.url, own.ownerUrl);
  service = await startService({ workers: 2, hotels, database, env: clock.env });
  // one reads its local cache, the other Redis
  const bare = await startBeside(service, { env: { ...clock.env, L1_MAX_BYTES: '0' } });
  allWorkers = await AllWorkers.of(service, bare);
});

/** Returns the ids of certified hotels in a copy. */
const certifiedIn = ({ hotels }: Mirror) =>
  [...hotels.values()].filter((hotel) => hotel.certified).map(({ id }) => id);

/** Resolves when exactly these are certified: in a mirror, in every worker by the list, and one by one. */
async function certifiedAre(copy: Mirror, ids: string[]): Promise<void> {
  await expect
    .poll(async () => {
      await copy.catchUp();
      return certifiedIn(copy);
    })
    .toEqual(ids);
  for (const id of copy.hotels.keys())
    await allWorkers.until(`/hotels/${id}`, ({ text }) => JSON.parse(text).certified === ids.includes(id));
  const shown = (text: string) => JSON.parse(text).filter((hotel: { certified: boolean }) => hotel.certified);
  await allWorkers.until('/hotels', ({ text }) => shown(text).length === ids.length);
}

describe('at midnight UTC', () => {
  it('every tier shows what begins and ends, and a waiting mirror receives it, and no other hotel', async () => {
    const copy = new Mirror((path) => service.get(path));
    await certifiedAre(copy, ['always', 'ends', LAST]);
    copy.announced.clear();
    await clock.set(midnightMs - 3_000);
    while (!['begins', 'ends', LAST].every((id) => copy.announced.has(id))) {
      const { more } = await copy.requestPage(10);
      // a copy that is up to date never mixes two days
      if (!more && !copy.announced.has(LAST)) expect(certifiedIn(copy)).toEqual(['always', 'ends', LAST]);
    }
    expect(clock.now()).toBeGreaterThanOrEqual(midnightMs);
    await certifiedAre(copy, ['always', 'begins']);
    expect([...copy.announced].sort()).toEqual(['begins', 'ends', LAST]);
  });

  it('a first copy that began before it is right after it', async () => {
    await clock.set(midnightMs - 1_800_000);
    const before = new Mirror((path) => service.get(path));
    await certifiedAre(before, ['always', 'ends', LAST]);
    const copy = new Mirror((path) => service.get(path), 3);
    await copy.requestPage();
    await clock.set(midnightMs + 1_000);
    await certifiedAre(copy, ['always', 'begins']);
  });
});
