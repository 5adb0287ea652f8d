import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import type { Entry } from '../../src/hotels/entry.ts';
import { LETTER } from '../../src/hotels/namespace.ts';
import { InProcessService, type InProcessWorker, nameOf, until } from '../support/in-process-service.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { untilBlocked } from '../support/postgres-client.ts';
import { shortOrLong } from '../support/run-length.ts';

await needs('redis');

const ROUNDS = shortOrLong(20, 200);

let inProcess: InProcessService;
let one: InProcessWorker;
let other: InProcessWorker;
let round = 0;

beforeAll(async () => {
  inProcess = await InProcessService.start();
  [one, other] = inProcess.workers as [InProcessWorker, InProcessWorker];
});
beforeEach(() => inProcess.settle());

/** Repeats a race, each time with a new hotel: id h<n>, channel id C<n>, named v1. */
async function repeat(race: (id: string, channelId: string) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < ROUNDS; i++) {
    const [id, channelId] = [`h${++round}`, `C${round}`];
    await inProcess.sql`insert into hotels (id, name, channel_id) values (${id}, 'v1', ${channelId})`;
    await inProcess.settle();
    await race(id, channelId);
  }
}

const change = (id: string, name: string) => inProcess.sql`update hotels set name = ${name} where id = ${id}`;
const remove = (id: string) => inProcess.sql`delete from hotels where id = ${id}`;

/** Returns the responses of a new worker and of both workers, after everything was released. */
async function answers(id: string, channelId: string): Promise<(string | null)[]> {
  await inProcess.settle();
  // it has received nothing and uses what Redis contains
  const newWorker = await inProcess.startWorker();
  const found = [await newWorker.lookUp('channel', channelId), await newWorker.lookUp('id', id)];
  // twice, because the first lookup may store values
  for (let look = 0; look < 2; look++) {
    for (const worker of inProcess.workers) {
      found.push(await worker.lookUp('id', id), await worker.lookUp('channel', channelId));
      worker.local.drop('id', id);
      worker.local.drop('channel', channelId);
      found.push(await worker.lookUp('id', id), await worker.lookUp('channel', channelId));
    }
  }
  return found;
}
const all = <T>(value: T): T[] => new Array(18).fill(value);

/** Deletes these ids from Redis, so that requests use PostgreSQL. */
async function deleteFromRedis(...ids: string[]): Promise<void> {
  await inProcess.deleteFromRedis(ids.flatMap((id) => Object.values(LETTER).map((letter) => letter + id)));
  for (const worker of inProcess.workers) worker.local.clear();
}

describe('the stale-set race', () => {
  it.each([
    ['after it was received', true],
    ['before it is received', false],
  ])('a load that began before a change and ends %s is used nowhere', (_, received) =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      const load = one.lookUp('id', id);
      await until(() => one.afterQuery.waiting > 0);
      await change(id, 'v2');
      await inProcess.deliver();
      if (received) inProcess.receive();
      one.afterQuery.open();
      await load;
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }),
  );

  it('a load whose write to Redis is in transit at the change is used nowhere', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.beforeFill.close();
      await one.lookUp('id', id);
      await until(() => one.beforeFill.waiting > 0);
      await change(id, 'v2');
      await inProcess.deliver();
      inProcess.receive();
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('a deleted hotel does not return', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      for (const syncPoint of [one.afterQuery, other.beforeFill]) syncPoint.close();
      const loads = [one.lookUp('channel', channelId), other.lookUp('id', id)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await remove(id);
      await inProcess.deliver();
      if (round % 2 === 0) inProcess.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all(null));
    }));

  it('an absence that was read before an insert is not served after it', () =>
    repeat(async (id, channelId) => {
      await remove(id);
      await inProcess.settle();
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [
        one.lookUp('channel', channelId),
        other.lookUp('channel', channelId),
        other.lookUp('id', id),
      ];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 1);
      await inProcess.sql`insert into hotels (id, name, channel_id) values (${id}, 'v2', ${channelId})`;
      await inProcess.deliver();
      if (round % 2 === 0) inProcess.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('a load does not answer later requests by an id that the hotel has lost', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      const load = one.lookUp('channel', channelId);
      await until(() => one.afterQuery.waiting > 0);
      await inProcess.sql`update hotels set channel_id = ${`${channelId}-new`} where id = ${id}`;
      await inProcess.deliver();
      inProcess.receive();
      const later = one.lookUp('channel', channelId);
      await inProcess.passed();
      one.afterQuery.open();
      await load;
      expect(await later).toBeNull();
      expect(await one.lookUp('channel', `${channelId}-new`)).toBe('v1');
    }));

  it('an id moves to another hotel', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [one.lookUp('channel', channelId), other.lookUp('channel', channelId)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await inProcess.sql.begin(async (transaction) => {
        await transaction`update hotels set channel_id = null, name = 'without a channel' where id = ${id}`;
        await transaction`insert into hotels (id, name, channel_id) values (${`${id}-heir`}, 'heir', ${channelId})`;
      });
      await inProcess.deliver();
      if (round % 2 === 0) inProcess.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(`${id}-heir`, channelId)).toEqual(all('heir'));
      expect(await one.lookUp('id', id)).toBe('without a channel');
    }));

  it('many hotels change at once', async () => {
    // the same in every round, so that rounds cost the same
    await inProcess.sql`
      insert into hotels (id, name, channel_id)
      select 'crowd-' || i, 'v1', 'CROWD-' || i from generate_series(1, 500) as i`;
    await repeat(async (id, channelId) => {
      const place = (round % 500) + 1;
      const [crowdId, crowdChannelId] = [`crowd-${place}`, `CROWD-${place}`];
      await deleteFromRedis(id, channelId, crowdId, crowdChannelId);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [
        one.lookUp('id', id),
        one.lookUp('channel', crowdChannelId),
        other.lookUp('channel', channelId),
        other.lookUp('id', crowdId),
      ];
      await until(() => one.afterQuery.waiting > 1 && other.beforeFill.waiting > 1);
      await inProcess.sql`update hotels set name = ${`${id} v2`} where id = ${id} or id >= 'crowd-' and id < 'crowd.'`;
      await inProcess.deliver();
      if (round % 2 === 0) inProcess.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all(`${id} v2`));
      expect(await answers(crowdId, crowdChannelId)).toEqual(all(`${id} v2`));
    });
  });
});

describe('a value that is stored after a change', () => {
  it('by an instance that read it before, is used nowhere', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      one.prefill([id]);
      await until(() => one.afterQuery.waiting > 0);
      await (round % 3 === 0 ? remove(id) : change(id, 'v2'));
      await inProcess.deliver();
      if (round % 2 === 0) inProcess.receive();
      one.afterQuery.open();
      expect(await answers(id, channelId)).toEqual(all(round % 3 === 0 ? null : 'v2'));
    }));

  it('by the instance that has sequenced it, is used by the others without a query', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      await change(id, 'v2');
      await inProcess.deliver();
      inProcess.receive();
      one.prefill([id]);
      await expect.poll(() => one.redisHotels.pointers('channel', [channelId])).toEqual([{ id }]);
      other.afterQuery.close();
      expect(await other.lookUp('id', id)).toBe('v2');
      expect(await other.lookUp('channel', channelId)).toBe('v2');
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));
});

describe('the log', () => {
  it('is applied row by row, as it comes', () =>
    repeat(async (id, channelId) => {
      for (const name of ['v2', 'v3', 'v4']) {
        await change(id, name);
        await inProcess.deliver();
        await one.lookUp('id', id);
      }
      const news = inProcess.announced.splice(0);
      for (const { rows, ...rest } of news)
        for (const row of rows) {
          for (const worker of inProcess.workers) worker.receive({ ...rest, rows: [row], place: undefined });
          await one.lookUp('id', id);
          await one.lookUp('channel', channelId);
        }
      inProcess.announced.push(...news);
      expect(await answers(id, channelId)).toEqual(all('v4'));
    }));

  it('has no position of a sequencer that was rolled back: its positions are given out again', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      await change(id, 'v2');
      const given = Promise.withResolvers<string>();
      const end = Promise.withResolvers<void>();
      const sequencing = inProcess.sql
        .begin(async (transaction) => {
          const [row] = await transaction`select hotel_api_sequence() as position`;
          given.resolve(row!.position);
          await end.promise;
          throw new Error('rolled back');
        })
        .catch(() => {});
      const first = await given.promise;
      // it reads v2 at a position from before
      expect(await one.lookUp('id', id)).toBe('v2');
      await change(id, 'v3');
      end.resolve();
      await sequencing;
      await inProcess.deliver();
      const { place } = inProcess.announced.at(-1)!;
      expect(place!.position).toBeGreaterThanOrEqual(Number(first));
      expect(await answers(id, channelId)).toEqual(all('v3'));
    }));

  it('has a change whose transaction began first and committed last', () =>
    repeat(async (id, channelId) => {
      const held = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      const early = inProcess.sql.begin(async (transaction) => {
        await transaction`update hotels set name = 'v2' where id = ${id}`;
        begun.resolve();
        await held.promise;
      });
      await begun.promise;
      await inProcess.sql`insert into hotels (id, name) values (${`${id}-late`}, 'v1')`;
      await inProcess.deliver();
      inProcess.receive();
      held.resolve();
      await early;
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('is right about an insert that waited for a deletion of the same id: its row is older', () =>
    repeat(async (id, channelId) => {
      const [updated, mayDelete, inserted, mayCommit] = [1, 2, 3, 4].map(() => Promise.withResolvers<void>());
      const deleting = inProcess.sql.begin(async (transaction) => {
        await transaction`update hotels set name = 'v2' where id = ${id}`;
        updated!.resolve();
        await mayDelete!.promise;
        await transaction`update hotels set name = 'v2 too' where id = ${id}`;
        await transaction`delete from hotels where id = ${id}`;
      });
      await updated!.promise;
      const inserting = inProcess.sql.begin(async (transaction) => {
        await transaction`insert into hotels (id, name, channel_id) values (${id}, 'v3', ${channelId})`;
        inserted!.resolve();
        await mayCommit!.promise;
      });
      await untilBlocked(inProcess.sql);
      mayDelete!.resolve();
      await Promise.all([deleting, inserted!.promise]);
      // the log has its deletion first
      await inProcess.deliver();
      inProcess.receive();
      mayCommit!.resolve();
      await inserting;
      expect(await answers(id, channelId)).toEqual(all('v3'));
    }));
});

describe('two sequencers at once', () => {
  it('give each change one position', async () => {
    const ids = Array.from({ length: ROUNDS }, (_, i) => `sequenced ${i}`);
    await inProcess.sql`insert into hotels ${inProcess.sql(ids.map((id) => ({ id, name: 'v1' })))}`;
    await inProcess.settle();
    const [start] = await inProcess.sql`select max(position) as position from hotel_api_log`;
    for (const id of ids)
      await Promise.all([
        change(id, 'v2'),
        inProcess.sql`select hotel_api_sequence()`,
        inProcess.sql`select hotel_api_sequence()`,
      ]);
    await inProcess.settle();
    const rows = await inProcess.sql<{ position: string; ids: string[] | null }[]>`
      select position, ids from hotel_api_log where position > ${start!.position} order by position`;
    expect(rows.flatMap(({ ids: named }) => named ?? []).toSorted()).toEqual(ids.toSorted());
    for (const id of ids) expect(await one.lookUp('id', id)).toBe('v2');
  });
});

describe('whatever the order of the values that Redis is given', () => {
  it.each(['v2 v3 v3', 'v3 v2 v3', 'v3 v3 v2', 'v1 v2 v3', 'v3 v1 v2', 'v2 v1 v3'])(
    '(%s), only the newest is used',
    async (order) => {
      const id = `ordered ${order}`;
      const versions = new Map<string, Entry>();
      await inProcess.sql`insert into hotels (id, name, channel_id) values (${id}, 'v1', ${id})`;
      for (const name of ['v1', 'v2', 'v3']) {
        await change(id, name);
        await inProcess.settle();
        const [entry] = await one.reader.load('id', [id], '');
        expect(nameOf(entry!)).toBe(name);
        versions.set(name, entry!);
      }
      for (const name of order.split(' ')) {
        await inProcess.settle();
        await other.redisHotels.fill([versions.get(name)!]);
        const [held] = await other.redisHotels.entries([id]);
        expect(held!.bytes.equals(versions.get(name)!.bytes)).toBe(true);
        for (const worker of [await inProcess.startWorker(), ...inProcess.workers]) {
          worker.local.clear();
          worker.afterQuery.close();
          worker.beforeFill.close();
          const looking = worker.lookUp('channel', id);
          // it asks PostgreSQL, unless Redis has the newest
          if (name !== 'v3') await until(() => worker.afterQuery.waiting > 0);
          worker.afterQuery.open();
          expect(await looking).toBe('v3');
        }
      }
    },
  );
});

describe('a revoked key', () => {
  it('does not return through a late fill', async () => {
    for (let i = 0; i < ROUNDS; i++) {
      const key = await insertKey(inProcess.sql, []);
      await inProcess.settle();
      const sha256 = hashOf(key);
      await inProcess.deleteFromRedis([`k:${sha256}`]);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [one.apiKeys.load(key), other.apiKeys.load(key)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await inProcess.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(sha256, 'hex')}`;
      await inProcess.deliver();
      if (i % 2 === 0) inProcess.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      await inProcess.settle();
      for (const worker of inProcess.workers) {
        for (let look = 0; look < 2; look++)
          expect(worker.apiKeys.find(key) ?? (await worker.apiKeys.load(key))).toBeNull();
      }
    }
  });

  it('and a new key that was cached as unknown is accepted at once', async () => {
    for (let i = 0; i < ROUNDS; i++) {
      const key = makeKey();
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [one.apiKeys.load(key), other.apiKeys.load(key)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await inProcess.sql`insert into api_keys (id, name, key_sha256)
        values (${`made-${i}`}, 'test', ${Buffer.from(hashOf(key), 'hex')})`;
      await inProcess.deliver();
      if (i % 2 === 0) inProcess.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      await inProcess.settle();
      for (const worker of inProcess.workers)
        expect(worker.apiKeys.find(key) ?? (await worker.apiKeys.load(key))).not.toBeNull();
    }
  });
});
