import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { readHotels } from '../../src/change-feed/changed-rows.ts';
import type { FeedMessage } from '../../src/change-feed/messages.ts';
import type { Entry } from '../../src/hotels/entry.ts';
import { LETTER } from '../../src/hotels/namespace.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { untilBlocked } from '../support/postgres-client.ts';
import { shortOrLong } from '../support/run-length.ts';
import { Stage, type StagedWorker, until } from '../support/stage.ts';

await needs('redis');

const ROUNDS = shortOrLong(40, 200);

let stage: Stage;
let one: StagedWorker;
let other: StagedWorker;
let round = 0;

beforeAll(async () => {
  stage = await Stage.set();
  [one, other] = stage.workers as [StagedWorker, StagedWorker];
});
beforeEach(() => stage.settle());

/** Repeats a race, each time with a new hotel: id h<n>, channel id C<n>, named v1. */
async function repeat(race: (id: string, channelId: string) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < ROUNDS; i++) {
    const [id, channelId] = [`h${++round}`, `C${round}`];
    await stage.sql`insert into hotels (id, name, channel_id) values (${id}, 'v1', ${channelId})`;
    await stage.settle();
    await race(id, channelId);
  }
}

const change = (id: string, name: string) => stage.sql`update hotels set name = ${name} where id = ${id}`;
const remove = (id: string) => stage.sql`delete from hotels where id = ${id}`;

/** Returns the responses of a new worker and of both workers, after everything was released. */
async function answers(id: string, channelId: string): Promise<(string | null)[]> {
  await stage.settle();
  // it has received nothing and accepts what Redis contains
  const startWorker = stage.startWorker();
  const found = [await startWorker.ask('channel', channelId), await startWorker.ask('id', id)];
  // twice, because the first lookup may store values
  for (let look = 0; look < 2; look++) {
    for (const worker of stage.workers) {
      found.push(await worker.ask('id', id), await worker.ask('channel', channelId));
      worker.local.drop('id', id);
      worker.local.drop('channel', channelId);
      found.push(await worker.ask('id', id), await worker.ask('channel', channelId));
    }
  }
  return found;
}
const all = <T>(value: T): T[] => new Array(18).fill(value);

/** Deletes these ids from Redis, so that requests use PostgreSQL. */
async function deleteFromRedis(...ids: string[]): Promise<void> {
  await stage.deleteFromRedis(ids.flatMap((id) => Object.values(LETTER).map((letter) => letter + id)));
  for (const worker of stage.workers) worker.local.clear();
}

describe('the stale-set race', () => {
  it.each([
    ['after it was received', true],
    ['before it is received, when Redis already has the new value', false],
  ])('a load that began before a change and ends %s is stored nowhere', (_, received) =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      const load = one.ask('id', id);
      await until(() => one.afterQuery.waiting > 0);
      await change(id, 'v2');
      await stage.deliver();
      if (received) stage.receive();
      one.afterQuery.open();
      await load;
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }),
  );

  it('a load whose write to Redis is in transit at the change is stored nowhere', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.beforeFill.close();
      await one.ask('id', id);
      await until(() => one.beforeFill.waiting > 0);
      await change(id, 'v2');
      await stage.deliver();
      stage.receive();
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('a deleted hotel does not return', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      for (const syncPoint of [one.afterQuery, other.beforeFill]) syncPoint.close();
      const loads = [one.ask('channel', channelId), other.ask('id', id)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await remove(id);
      await stage.deliver();
      if (round % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all(null));
    }));

  it('an absence that was read before an insert is not served after it', () =>
    repeat(async (id, channelId) => {
      await remove(id);
      await stage.settle();
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [one.ask('channel', channelId), other.ask('channel', channelId), other.ask('id', id)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 1);
      await stage.sql`insert into hotels (id, name, channel_id) values (${id}, 'v2', ${channelId})`;
      await stage.deliver();
      if (round % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('a load does not answer later requests by an id that the hotel has lost', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      const load = one.ask('channel', channelId);
      await until(() => one.afterQuery.waiting > 0);
      await stage.sql`update hotels set channel_id = ${`${channelId}-new`} where id = ${id}`;
      await stage.deliver();
      stage.receive();
      const later = one.ask('channel', channelId);
      await stage.passed();
      one.afterQuery.open();
      await load;
      expect(await later).toBeNull();
      expect(await one.ask('channel', `${channelId}-new`)).toBe('v1');
    }));

  it('an id moves to another hotel', () =>
    repeat(async (id, channelId) => {
      await deleteFromRedis(id, channelId);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [one.ask('channel', channelId), other.ask('channel', channelId)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await stage.sql.begin(async (transaction) => {
        await transaction`update hotels set channel_id = null, name = 'without a channel' where id = ${id}`;
        await transaction`insert into hotels (id, name, channel_id) values (${`${id}-heir`}, 'heir', ${channelId})`;
      });
      await stage.deliver();
      if (round % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(`${id}-heir`, channelId)).toEqual(all('heir'));
      expect(await one.ask('id', id)).toBe('without a channel');
    }));

  it('more changes arrive at once than are replaced individually', async () => {
    // the same in every round, so that rounds cost the same
    await stage.sql`
      insert into hotels (id, name, channel_id)
      select 'crowd-' || i, 'v1', 'CROWD-' || i from generate_series(1, 500) as i`;
    await repeat(async (id, channelId) => {
      const place = (round % 500) + 1;
      const [crowdId, crowdChannelId] = [`crowd-${place}`, `CROWD-${place}`];
      await deleteFromRedis(id, channelId, crowdId, crowdChannelId);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [
        one.ask('id', id),
        one.ask('channel', crowdChannelId),
        other.ask('channel', channelId),
        other.ask('id', crowdId),
      ];
      await until(() => one.afterQuery.waiting > 1 && other.beforeFill.waiting > 1);
      await stage.sql`update hotels set name = ${`${id} v2`} where id = ${id} or id >= 'crowd-' and id < 'crowd.'`;
      await stage.deliver();
      if (round % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all(`${id} v2`));
      expect(await answers(crowdId, crowdChannelId)).toEqual(all(`${id} v2`));
    });
  });
});

describe('messages of the invalidator', () => {
  it('may arrive in any order, and twice', () =>
    repeat(async (id, channelId) => {
      for (const name of ['v2', 'v3', 'v4']) {
        await change(id, name);
        await stage.deliver();
        await one.ask('id', id);
      }
      const said = stage.announced.splice(0);
      for (const message of [...said.toReversed(), ...said])
        for (const worker of stage.workers) worker.receive(message);
      expect(await answers(id, channelId)).toEqual(all('v4'));
    }));

  it('are harmless from an invalidator whose term has ended without its knowledge', () =>
    repeat(async (id, channelId) => {
      const [stale] = await announceNothing();
      // Redis loses the write marker, which begins a new generation
      const { client } = stage.redisDatabase;
      await client.del(await client.keys('*:marker'));
      await change(id, 'v2');
      await stage.deliver();
      stage.receive();
      for (const worker of stage.workers) worker.receive({ ...stale!, e: 'over', n: 99 });
      await change(id, 'v3');
      await stage.deliver();
      for (const message of stage.announced.splice(0).toReversed())
        for (const worker of stage.workers) worker.receive(message);
      for (const worker of stage.workers) worker.receive({ ...stale!, e: 'over', n: 100 });
      expect(await answers(id, channelId)).toEqual(all('v3'));
    }));

  it('arrive for a change whose transaction began first and committed last', () =>
    repeat(async (id, channelId) => {
      const held = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      const early = stage.sql.begin(async (transaction) => {
        await transaction`update hotels set name = 'v2' where id = ${id}`;
        begun.resolve();
        await held.promise;
      });
      await begun.promise;
      await stage.sql`insert into hotels (id, name) values (${`${id}-late`}, 'v1')`;
      await stage.deliver();
      stage.receive();
      held.resolve();
      await early;
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('are correct for an insert that received its version and then waited for a delete of the same id', () =>
    repeat(async (id, channelId) => {
      const [updated, mayDelete, inserted, mayCommit] = [1, 2, 3, 4].map(() => Promise.withResolvers<void>());
      const deleting = stage.sql.begin(async (transaction) => {
        await transaction`update hotels set name = 'v2' where id = ${id}`;
        updated!.resolve();
        await mayDelete!.promise;
        await transaction`update hotels set name = 'v2 too' where id = ${id}`;
        await transaction`delete from hotels where id = ${id}`;
      });
      await updated!.promise;
      const inserting = stage.sql.begin(async (transaction) => {
        await transaction`insert into hotels (id, name, channel_id) values (${id}, 'v3', ${channelId})`;
        inserted!.resolve();
        await mayCommit!.promise;
      });
      await untilBlocked(stage.sql);
      mayDelete!.resolve();
      await Promise.all([deleting, inserted!.promise]);
      // its deletion is announced, with a larger version than that of the insert
      await stage.deliver();
      stage.receive();
      mayCommit!.resolve();
      await inserting;
      expect(await answers(id, channelId)).toEqual(all('v3'));
    }));
});

describe('two concurrent invalidators', () => {
  it('leave the last change in Redis, and no deleted hotel, if the one with the ended term writes late', () =>
    repeat(async (id, channelId) => {
      const after = round % 2 === 0 ? 'v3' : null;
      const competitor = await stage.competitor();
      await change(id, 'v2');
      competitor.beforeWrite.close();
      const late = competitor.deliver();
      await until(() => competitor.beforeWrite.waiting > 0);
      // what it took from the queue is there again
      await competitor.disconnect();
      await (after === null ? remove(id) : change(id, after));
      await stage.deliver();
      // it has received nothing and accepts what Redis contains of the present generation
      const startWorker = stage.startWorker();
      competitor.beforeWrite.open();
      // it announces nothing more either
      await expect(late).rejects.toThrow('another term');
      expect(await startWorker.ask('channel', channelId)).toBe(after);
      expect(await startWorker.ask('id', id)).toBe(after);
      expect(await answers(id, channelId)).toEqual(all(after));
    }));
});

describe('Redis', () => {
  it.each(['v2 v3 v3', 'v3 v2 v3', 'v3 v3 v2', 'v1 v2 v3', 'v3 v1 v2', 'v2 v1 v3'])(
    'keeps the newest of the versions written in the order %s',
    async (order) => {
      const id = `ordered ${order}`;
      const versions = new Map<string, Entry>();
      await stage.sql`insert into hotels (id, name, channel_id) values (${id}, 'v1', ${id})`;
      for (const name of ['v1', 'v2', 'v3']) {
        await change(id, name);
        versions.set(name, (await readHotels(stage.sql, [id])).get(id)!);
      }
      const { hotels } = stage.stores();
      let newest = '';
      for (const name of order.split(' ')) {
        const rejected = await hotels.fill([versions.get(name)!]);
        expect([...rejected!.keys()]).toEqual(name < newest ? [id] : []);
        if (name > newest) newest = name;
        const [held] = await hotels.held([id]);
        expect(held!.version).toBe(versions.get(newest)!.version);
        expect(held!.bytes.equals(versions.get(newest)!.bytes)).toBe(true);
      }
    },
  );
});

describe('a revoked key', () => {
  it('does not return through a late fill', async () => {
    for (let i = 0; i < ROUNDS; i++) {
      const key = await insertKey(stage.sql, []);
      await stage.settle();
      const sha256 = hashOf(key);
      await stage.deleteFromRedis([`k:${sha256}`]);
      one.afterQuery.close();
      other.beforeFill.close();
      const loads = [one.apiKeys.load(key), other.apiKeys.load(key)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await stage.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(sha256, 'hex')}`;
      await stage.deliver();
      if (i % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      await stage.settle();
      for (const worker of stage.workers) {
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
      await stage.sql`insert into api_keys (id, name, key_sha256)
        values (${`made-${i}`}, 'test', ${Buffer.from(hashOf(key), 'hex')})`;
      await stage.deliver();
      if (i % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      await stage.settle();
      for (const worker of stage.workers)
        expect(worker.apiKeys.find(key) ?? (await worker.apiKeys.load(key))).not.toBeNull();
    }
  });
});

/** Returns the messages of a change of a hotel that is never requested. */
async function announceNothing(): Promise<FeedMessage[]> {
  await stage.sql`insert into hotels (id, name) values (${`nobody's ${++round}`}, 'v1')`;
  await stage.deliver();
  return [...stage.announced];
}
