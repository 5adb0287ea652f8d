import { setImmediate as nextTick } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Collections } from '../../src/collections/collections.ts';
import { LETTER } from '../../src/hotels/namespace.ts';
import { AllWorkers, status } from '../support/all-workers.ts';
import { addToCollection, insertCollection, removeFromCollection } from '../support/collection.ts';
import { insertHotels } from '../support/hotel.ts';
import { InProcessService, type InProcessWorker, until } from '../support/in-process-service.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import type { FaultProxy } from '../support/proxy.ts';
import { shortOrLong } from '../support/run-length.ts';
import { type Service, startBehindProxy, startBeside } from '../support/service.ts';

await needs('redis');

const PATH = '/hotels/channel/C1';

describe('the members in a worker, concurrently with changes:', () => {
  const ROUNDS = shortOrLong(20, 200);
  let inProcess: InProcessService;
  let one: InProcessWorker;
  let round = 0;

  beforeAll(async () => {
    inProcess = await InProcessService.start();
    one = inProcess.workers[0]!;
  });

  // a race that failed may have left its sync point closed
  beforeEach(() => inProcess.settle());

  /**
   * Loads the members into the worker. Returns whether they contain the hotel; undefined if the worker must query.
   */
  const held = async (collection: string, hotel: string) => {
    await until(() => one.collections.members(collection) !== undefined);
    return one.collections.members(collection)!.has(hotel);
  };
  /** Begins a load, which stops when it reads the members, after the first query has counted them. */
  const beginLoad = async (collection: string) => {
    one.afterQuery.close();
    one.collections.members(collection);
    await until(() => one.afterQuery.waiting > 0);
    one.afterQuery.open();
    one.afterQuery.close();
    await nextTick();
    await until(() => one.afterQuery.waiting > 0);
  };
  const repeat = async (race: (collection: string, hotel: string) => Promise<unknown>) => {
    for (let i = 0; i < ROUNDS; i++) {
      const [collection, hotel] = [`c${++round}`, `h${round}`];
      await insertHotels(inProcess.sql, [{ id: hotel }]);
      await insertCollection(inProcess.sql, collection, [hotel]);
      await inProcess.settle();
      await race(collection, hotel);
    }
  };

  it.each([
    ['before it is received', false],
    ['after it was received', true],
  ])('a load that began before a removal, and ends %s, never serves a removed hotel', (_, isReceived) =>
    repeat(async (collection, hotel) => {
      await beginLoad(collection);
      await removeFromCollection(inProcess.sql, collection, [hotel]);
      await inProcess.deliver();
      if (isReceived) inProcess.receive();
      one.afterQuery.open();
      await inProcess.settle();
      expect(await held(collection, hotel)).toBe(false);
    }),
  );

  it('takes no more bytes than it may', async () => {
    const collections = new Collections({
      repository: one.collectionRepository,
      maxBytes: 8_192,
      outsideMs: 60_000,
      freshness: { isSure: () => true },
    });
    for (let i = 0; i < 9; i++) {
      const [collection, hotel] = [`c${++round}`, `h${round}`];
      await insertCollection(inProcess.sql, collection, [hotel]);
      await until(() => collections.members(collection)?.has(hotel) === true);
      await collections.page(collection, 0, 10, '');
      expect(collections.bytes).toBeLessThanOrEqual(8_192);
    }
    expect(collections.counts.evictions).toBeGreaterThan(0);
  });

  it('a lookup that began before a second change has no effect', () =>
    repeat(async (collection, hotel) => {
      expect(await held(collection, hotel)).toBe(true);
      one.afterQuery.close();
      await inProcess.sql`update collection_hotels set hotel_id = hotel_id where collection_id = ${collection}`;
      await inProcess.deliver();
      inProcess.receive();
      await until(() => one.afterQuery.waiting > 0);
      // it has read that the hotel is a member
      expect(one.collections.members(collection)).toBeUndefined();
      await removeFromCollection(inProcess.sql, collection, [hotel]);
      await inProcess.deliver();
      inProcess.receive();
      expect(one.collections.members(collection)).toBeUndefined();
      one.afterQuery.open();
      expect(await held(collection, hotel)).toBe(false);
    }));

  const hiddenOf = async () => {
    const [id, channel] = [`x${round}`, `X${round}`];
    await insertHotels(inProcess.sql, [{ id, channel_id: channel }]);
    await inProcess.settle();
    return { id, channel };
  };
  it.each([
    ['is added', false],
    ['is added', true],
    ['takes over the id', false],
    ['takes over the id', true],
  ])(
    'a lookup of a hidden hotel, while a hotel %s (received before its end: %s), is not remembered',
    (how, isReceived) =>
      repeat(async (collection, hotel) => {
        const { id, channel } = await hiddenOf();
        const find = async () => (await one.reader.load('channel', [channel], '', collection))[0]?.id;
        expect(await held(collection, hotel)).toBe(true);
        expect(await find()).toBeUndefined();
        // remembered: it is not looked up again
        one.afterQuery.close();
        expect(await find()).toBeUndefined();
        one.collections.members(collection)!.hotelChanged(hotel, [`c:${channel}`]);
        const finding = find();
        await until(() => one.afterQuery.waiting > 0);
        if (how === 'is added') await addToCollection(inProcess.sql, collection, [id]);
        else
          await inProcess.sql.begin(async (sql) => {
            await sql`update hotels set channel_id = null where id = ${id}`;
            await sql`update hotels set channel_id = ${channel} where id = ${hotel}`;
          });
        await inProcess.deliver();
        if (isReceived) inProcess.receive();
        one.afterQuery.open();
        expect(await finding).toBeUndefined();
        await inProcess.settle();
        expect(await held(collection, hotel)).toBe(true);
        expect(await find()).toBe(how === 'is added' ? id : hotel);
      }),
  );

  it('two members that exchange their ids in one transaction are never absent, whatever is read from where', () =>
    repeat(async (collection, hotel) => {
      const [second, channel, secondChannel] = [`s${round}`, `C${round}`, `S${round}`];
      await insertHotels(inProcess.sql, [{ id: second, channel_id: secondChannel }]);
      await inProcess.sql`update hotels set channel_id = ${channel} where id = ${hotel}`;
      await addToCollection(inProcess.sql, collection, [second]);
      await inProcess.settle();
      const find = async () =>
        (await one.reader.load('channel', [channel, secondChannel], '', collection)).map(
          (entry) => entry?.id,
        );
      // every other time the members are not known, so that PostgreSQL is asked for them
      if (round % 2 === 0) await held(collection, hotel);
      one.afterQuery.close();
      one.local.clear();
      await inProcess.deleteFromRedis([hotel, second].map((id) => `${LETTER.id}${id}`));
      const finding = find();
      await until(() => one.afterQuery.waiting > 0);
      await inProcess.sql.begin(async (sql) => {
        await sql`update hotels set channel_id = null where id = ${hotel}`;
        await sql`update hotels set channel_id = ${channel} where id = ${second}`;
        await sql`update hotels set channel_id = ${secondChannel} where id = ${hotel}`;
      });
      await inProcess.deliver();
      const during = find();
      one.afterQuery.open();
      for (const found of [await finding, await during])
        expect(found.toSorted()).toEqual([hotel, second].toSorted());
      inProcess.receive();
      expect(await find()).toEqual([second, hotel]);
    }));

  it('a deletion of the collection during its load leaves nothing', () =>
    repeat(async (collection, hotel) => {
      await beginLoad(collection);
      await inProcess.sql`delete from collections where id = ${collection}`;
      await inProcess.deliver();
      inProcess.receive();
      one.afterQuery.open();
      expect(await held(collection, hotel)).toBe(false);
    }));

  it('a key that is moved to another collection does not return to the first', () =>
    repeat(async (collection, hotel) => {
      const key = await insertKey(inProcess.sql, [], collection);
      one.afterQuery.close();
      const loading = one.apiKeys.load(key);
      await until(() => one.afterQuery.waiting > 0);
      await inProcess.sql`update api_keys set collection_id = 'other' where collection_id = ${collection}`;
      await inProcess.deliver();
      inProcess.receive();
      one.afterQuery.open();
      await loading;
      expect((await one.apiKeys.load(key))?.collection).toBe('other');
      expect(await held('other', hotel)).toBe(false);
    }));
});

describe('a change of a collection is effective everywhere within a second:', () => {
  let service: Service;
  let allWorkers: AllWorkers;
  let proxy: FaultProxy;
  let key: string;

  beforeAll(async () => {
    const hotels = [1, 2, 3].map((n) => ({ id: `h${n}`, channel_id: `C${n}` }));
    ({ service, proxy } = await startBehindProxy({ workers: 2, hotels }));
    allWorkers = await AllWorkers.of(service, await startBeside(service, { workers: 2 }));
    await insertCollection(service.sql, 'c', ['h2']);
    key = await insertKey(service.sql, [], 'c');
  });

  const seen = (expected: number, path = PATH) => allWorkers.until(path, status(expected), 1_000, key);

  it('a hotel is added and removed, many times', async () => {
    for (let round = 0; round < 10; round++) {
      await addToCollection(service.sql, 'c', ['h1']);
      await seen(200);
      await seen(200, '/hotels/h1');
      await removeFromCollection(service.sql, 'c', ['h1']);
      await seen(404);
      await seen(404, '/hotels/h1');
    }
  });

  it('one hotel is added among 100,000, within 5 s, and all are removed', async () => {
    await service.sql`insert into collection_hotels select 'c', 'x' || i from generate_series(1, 100000) as i
      union all select 'c', 'h1'`;
    await allWorkers.until(PATH, status(200), 5_000, key);
    await service.sql`delete from collection_hotels where hotel_id <> 'h2'`;
    await allWorkers.until(PATH, status(404), 5_000, key);
    expect((await service.get('/hotels/h2', { key })).status).toBe(200);
  });

  it('a collection is deleted and created again, and one is truncated', async () => {
    await addToCollection(service.sql, 'c', ['h1']);
    await seen(200);
    await service.sql`delete from collections where id = 'c'`;
    await seen(404);
    await insertCollection(service.sql, 'c', ['h1', 'h2']);
    await seen(200);
    await service.sql`truncate collection_hotels`;
    await seen(404);
    await addToCollection(service.sql, 'c', ['h1', 'h2']);
    await seen(200);
  });

  it('also after Redis has lost everything', async () => {
    await seen(200);
    await service.redis!.flushdb();
    await removeFromCollection(service.sql, 'c', ['h1']);
    await seen(404);
    await addToCollection(service.sql, 'c', ['h1']);
    await seen(200);
  });

  it('and without the log and PostgreSQL, no removed hotel is served', async () => {
    await seen(200);
    proxy.blackout();
    await removeFromCollection(service.sql, 'c', ['h1']);
    // the instance behind the proxy cannot know it: 503
    await allWorkers.until(PATH, ({ status: found }) => found === 404 || found === 503, 1_000, key);
    expect((await service.get('/hotels/h2', { key })).status).toBe(503);
    await proxy.heal();
    await allWorkers.until(PATH, status(404), 10_000, key);
    await allWorkers.until('/hotels/h2', status(200), 10_000, key);
  });
});
