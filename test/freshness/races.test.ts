import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { readHotels } from '../../src/change-feed/changed-rows.ts';
import type { FeedMessage } from '../../src/change-feed/messages.ts';
import type { Entry } from '../../src/hotels/entry.ts';
import { LETTER } from '../../src/hotels/namespace.ts';
import { inForm } from '../support/form.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { Stage, type StagedWorker, until } from '../support/stage.ts';

await needs('redis');

const ROUNDS = inForm(40, 200);

let stage: Stage;
let one: StagedWorker;
let other: StagedWorker;
let round = 0;

beforeAll(async () => {
  stage = await Stage.set();
  [one, other] = stage.workers as [StagedWorker, StagedWorker];
});
beforeEach(() => stage.settle());

/** Repeats a race, each time with a hotel of its own: id h<n>, channel id C<n>, named v1. */
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

/** All that one who starts now and both workers answer, once everything was let go. */
async function answers(id: string, channelId: string): Promise<(string | null)[]> {
  await stage.settle();
  // it knows nothing and believes what Redis says
  const newcomer = stage.newcomer();
  const found = [await newcomer.ask('channel', channelId), await newcomer.ask('id', id)];
  // twice: what the first look stored is looked at too
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

/** Redis forgets these ids, of every kind: what is asked for goes to PostgreSQL. */
async function forget(...ids: string[]): Promise<void> {
  await stage.forget(ids.flatMap((id) => Object.values(LETTER).map((letter) => letter + id)));
  for (const worker of stage.workers) worker.local.clear();
}

describe('the stale-set race', () => {
  it.each([
    ['after it was heard of', true],
    ['before it is heard of, when Redis has the new value already', false],
  ])('a load that began before a change and ends %s is stored nowhere', (_, received) =>
    repeat(async (id, channelId) => {
      await forget(id, channelId);
      one.afterQuery.shut();
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

  it('nor one whose write to Redis is on its way when the change comes', () =>
    repeat(async (id, channelId) => {
      await forget(id, channelId);
      one.beforeFill.shut();
      await one.ask('id', id);
      await until(() => one.beforeFill.waiting > 0);
      await change(id, 'v2');
      await stage.deliver();
      stage.receive();
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('with a delete: what is gone does not come back', () =>
    repeat(async (id, channelId) => {
      await forget(id, channelId);
      for (const syncPoint of [one.afterQuery, other.beforeFill]) syncPoint.shut();
      const loads = [one.ask('channel', channelId), other.ask('id', id)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await remove(id);
      await stage.deliver();
      if (round % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all(null));
    }));

  it('with an insert: who was told that there is nothing does not say so afterwards', () =>
    repeat(async (id, channelId) => {
      await remove(id);
      await stage.settle();
      await forget(id, channelId);
      one.afterQuery.shut();
      other.beforeFill.shut();
      const loads = [one.ask('channel', channelId), other.ask('channel', channelId), other.ask('id', id)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 1);
      await stage.sql`insert into hotels (id, name, channel_id) values (${id}, 'v2', ${channelId})`;
      await stage.deliver();
      if (round % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(id, channelId)).toEqual(all('v2'));
    }));

  it('nor does it answer who asks afterwards by an id that the hotel has given up', () =>
    repeat(async (id, channelId) => {
      await forget(id, channelId);
      one.afterQuery.shut();
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

  it('with an id that changes hands', () =>
    repeat(async (id, channelId) => {
      await forget(id, channelId);
      one.afterQuery.shut();
      other.beforeFill.shut();
      const loads = [one.ask('channel', channelId), other.ask('channel', channelId)];
      await until(() => one.afterQuery.waiting > 0 && other.beforeFill.waiting > 0);
      await stage.sql.begin(async (transaction) => {
        await transaction`update hotels set channel_id = null, name = 'given up' where id = ${id}`;
        await transaction`insert into hotels (id, name, channel_id) values (${`${id}-heir`}, 'heir', ${channelId})`;
      });
      await stage.deliver();
      if (round % 2 === 0) stage.receive();
      one.afterQuery.open();
      await Promise.all(loads);
      expect(await answers(`${id}-heir`, channelId)).toEqual(all('heir'));
      expect(await one.ask('id', id)).toBe('given up');
    }));

  it('with more changes at once than are replaced one by one', async () => {
    // the same in every round, so that a round costs what the first does
    await stage.sql`
      insert into hotels (id, name, channel_id)
      select 'crowd-' || i, 'v1', 'CROWD-' || i from generate_series(1, 500) as i`;
    await repeat(async (id, channelId) => {
      const place = (round % 500) + 1;
      const [crowdId, crowdChannelId] = [`crowd-${place}`, `CROWD-${place}`];
      await forget(id, channelId, crowdId, crowdChannelId);
      one.afterQuery.shut();
      other.beforeFill.shut();
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

describe('what the invalidator says', () => {
  it('may come in any order, and twice', () =>
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

  it('does no harm when it comes from one that does not know that its term is over', () =>
    repeat(async (id, channelId) => {
      const [stale] = await sayNothing();
      // Redis loses its sign of life: a new generation
      const { client } = stage.redisDatabase;
      await client.del(await client.keys('*:beat'));
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

  it('comes for a change whose transaction began first and committed last', () =>
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

  it('is right for an insert that drew its version and then waited for a delete of the same id', () =>
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
      await untilBlocked();
      mayDelete!.resolve();
      await Promise.all([deleting, inserted!.promise]);
      // its deletion is told, with a larger version than the insert has
      await stage.deliver();
      stage.receive();
      mayCommit!.resolve();
      await inserting;
      expect(await answers(id, channelId)).toEqual(all('v3'));
    }));
});

describe('two invalidators that fight', () => {
  it('leave in Redis what changed last, and no hotel that is gone, when the one whose term is over writes late', () =>
    repeat(async (id, channelId) => {
      const after = round % 2 === 0 ? 'v3' : null;
      const rival = await stage.rival();
      await change(id, 'v2');
      rival.beforeWrite.shut();
      const late = rival.deliver();
      await until(() => rival.beforeWrite.waiting > 0);
      // what it took off the queue is back there
      await rival.cutOff();
      await (after === null ? remove(id) : change(id, after));
      await stage.deliver();
      // it knows nothing and believes what Redis says, of the present generation
      const newcomer = stage.newcomer();
      rival.beforeWrite.open();
      // nor does it tell anything any more
      await expect(late).rejects.toThrow('another term');
      expect(await newcomer.ask('channel', channelId)).toBe(after);
      expect(await newcomer.ask('id', id)).toBe(after);
      expect(await answers(id, channelId)).toEqual(all(after));
    }));
});

describe('Redis', () => {
  it.each(['v2 v3 v3', 'v3 v2 v3', 'v3 v3 v2', 'v1 v2 v3', 'v3 v1 v2', 'v2 v1 v3'])(
    'keeps the newest of the versions that are written in the order %s',
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

describe('a key that is revoked', () => {
  it('never comes back through a late fill', async () => {
    for (let i = 0; i < ROUNDS; i++) {
      const key = await insertKey(stage.sql, []);
      await stage.settle();
      const sha256 = hashOf(key);
      await stage.forget([`k:${sha256}`]);
      one.afterQuery.shut();
      other.beforeFill.shut();
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

  it('and one that was asked for before it was made is known at once', async () => {
    for (let i = 0; i < ROUNDS; i++) {
      const key = makeKey();
      one.afterQuery.shut();
      other.beforeFill.shut();
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

/** The messages of a change of nothing that anybody asks for. */
async function sayNothing(): Promise<FeedMessage[]> {
  await stage.sql`insert into hotels (id, name) values (${`nobody's ${++round}`}, 'v1')`;
  await stage.deliver();
  return [...stage.announced];
}

async function untilBlocked(): Promise<void> {
  for (;;) {
    const blocked = await stage.sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    if (blocked.length > 0) return;
  }
}
