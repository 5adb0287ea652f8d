import { beforeEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../support/fake-clock.ts';
import { Mirror } from '../support/mirror.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { pathOf } from '../support/programs.ts';
import { promisedMs } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';

const DAY_MS = 86_400_000;
/** More than the sequencer scans in one transaction. */
const OTHERS = 52_000;
await needs('faketime');
const library = await pathOf('faketime');

let clock: FakeClock;
let midnightMs: number;
let service: Service;

const day = (days: number) => new Date(midnightMs + days * DAY_MS).toISOString().slice(0, 10);

function certified(id: string, from: number, until: number) {
  const certification_url = 'https://badge.example/';
  return { id, certified_from: day(from), certified_until: day(until), certification_url };
}

beforeEach(async () => {
  clock = await FakeClock.make(library!);
  midnightMs = Math.ceil(clock.now() / DAY_MS) * DAY_MS;
  await clock.set(midnightMs - 3_600_000);
  const hotels = [
    certified('always', -9, 9),
    certified('begins', 0, 9),
    certified('ends', -9, -1),
    certified('later', 1, 9),
    certified('over', -9, -2),
    certified('short', 2, 3),
    { id: 'never' },
    certified('zz-ends', -9, -1),
  ];
  // the sequencer knows the day from its server
  const own = await ownPostgres(50, undefined, {}, clock.env);
  service = await startService({ hotels, database: databaseAt(own.url, own.ownerUrl), env: clock.env });
  await service.sql`insert into hotels (id, name) select 'z' || i, 'other' from generate_series(1, ${OTHERS}::integer) as i`;
});

/** Returns a mirror that holds all hotels. */
async function mirror(): Promise<Mirror> {
  const copy = new Mirror((path) => service.get(path));
  await copy.catchUp();
  await expect
    .poll(async () => {
      await copy.catchUp();
      return copy.hotels.size;
    })
    .toBe(OTHERS + 8);
  return copy;
}

/** Returns the ids of certified hotels in a copy. */
const certifiedIn = ({ hotels }: Mirror) =>
  [...hotels.values()].filter((hotel) => hotel.certified).map(({ id }) => id);

/** Follows until the copy shows exactly these as certified. */
async function comesTo(copy: Mirror, ids: string[]): Promise<void> {
  await expect
    .poll(async () => {
      await copy.catchUp();
      return certifiedIn(copy);
    })
    .toEqual(ids);
}

describe('at midnight UTC', () => {
  it('a waiting mirror receives each hotel that flips, and of no other', async () => {
    const copy = await mirror();
    await comesTo(copy, ['always', 'ends', 'zz-ends']);
    copy.announced.clear();
    await clock.set(midnightMs - 3_000);
    while (!['begins', 'ends', 'zz-ends'].every((id) => copy.announced.has(id))) {
      const { more } = await copy.requestPage(10);
      // a copy that is up to date never mixes two days
      if (!more && !copy.announced.has('zz-ends'))
        expect(certifiedIn(copy)).toEqual(['always', 'ends', 'zz-ends']);
    }
    const lateMs = clock.now() - midnightMs;
    console.log(`the last flip was delivered ${lateMs} ms after midnight`);
    expect(lateMs).toBeGreaterThan(0);
    expect(lateMs).toBeLessThan(promisedMs(1_000));
    await copy.catchUp();
    expect(certifiedIn(copy)).toEqual(['always', 'begins']);
    expect([...copy.announced].sort()).toEqual(['begins', 'ends', 'zz-ends']);
    for (const id of ['begins', 'ends', 'zz-ends'])
      expect(copy.hotels.get(id)).toEqual((await service.get(`/hotels/${id}`)).json());
  });

  it('a first copy that began before it is right after it', async () => {
    await mirror();
    const copy = new Mirror((path) => service.get(path), 5);
    await copy.requestPage();
    expect(certifiedIn(copy)).toEqual(['always', 'ends']);
    await clock.set(midnightMs + 1_000);
    // the rest of the walk may take larger pages
    const rest = new Mirror((path) => service.get(path));
    for (const [id, hotel] of copy.hotels) rest.hotels.set(id, hotel);
    rest.next = copy.next;
    await comesTo(rest, ['always', 'begins']);
  });

  it('also if the clock leaps over days, and goes back', async () => {
    const copy = await mirror();
    await clock.set(midnightMs + 2 * DAY_MS + 1_000);
    await comesTo(copy, ['always', 'begins', 'later', 'short']);
    await clock.set(midnightMs + 5 * DAY_MS);
    await comesTo(copy, ['always', 'begins', 'later']);
    await clock.set(midnightMs - 1_800_000);
    await comesTo(copy, ['always', 'ends', 'zz-ends']);
  });
});
