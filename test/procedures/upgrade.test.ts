import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { notReadyReasons } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';
import { Operator } from './operator.ts';
import { makeRelease } from './release.ts';
import { DEADLINES, REQUESTS, ROWS } from './requests.ts';

await needs('bash', 'redis');

const names = await readdir(fileURLToPath(new URL('../../sql', import.meta.url)));
const present = Number(names.sort().at(-1)!.slice(0, 3));
const numbered = (version: number): string => String(version).padStart(3, '0');

/** Usual first half of a schema change: it keeps everything that this release uses. */
const EXPAND = {
  [`${numbered(present + 1)}-chains.from-${numbered(present)}.sql`]: `
    set local lock_timeout = '2s';
    alter table hotels add column chain text;
    alter table api_keys add column note text not null default '';
    create table chains (id text primary key);`,
};
/** Second half: it removes parts that no release since the first half uses. */
const CONTRACT = {
  [`${numbered(present + 2)}-no-notes.from-${numbered(present + 1)}.sql`]:
    'alter table api_keys drop column note',
};

const isReady = (service: Service) => async () => (await service.admin('/readyz')).status === 200;

it('an upgrade with a migration, and the rollback, fail no request; a release that does not support the schema reports it', async () => {
  const [database, redisDatabase] = [await freshDatabase(), await freshRedis()];
  const newer = await makeRelease(EXPAND);
  const owner = { DATABASE_URL: database.ownerUrl };
  const [ofOld, ofNew] = [await Operator.set(owner), await Operator.set(owner, newer)];
  const beside = { database, redisDatabase, env: DEADLINES };
  const ofRelease = (main: string) => ({
    ...beside,
    command: [process.execPath, main, 'serve'] as [string, ...string[]],
    awaitReady: false,
  });

  const old = await startService({ ...beside, hotels: ROWS, workers: 2 });
  const load = new SteadyLoad(old, REQUESTS);
  await load.answers(100);

  const young = await startService(ofRelease(newer));
  const reason = `The database's schema lacks sql/${Object.keys(EXPAND)[0]}. Run: hotel-api migrate`;
  await expect.poll(() => notReadyReasons(young.logs())).toContain(reason);
  expect((await young.admin('/livez')).status).toBe(200);
  expect(await ofNew.types('hotel-api migrate')).toBe(
    `applied  ${Object.keys(EXPAND)[0]}\nversion  ${present + 1}\n`,
  );
  await expect.poll(isReady(young)).toBe(true);
  const both = await AllWorkers.of(old, young);
  await database.sql`update hotels set name = 'after the migration' where id = 'chaos-500'`;
  await both.until('/hotels/chaos-500', named('after the migration'));
  await load.answers(100);

  // rollback: its migrate has nothing to do, and a new instance of the old release takes over
  await young.stop();
  expect(await ofOld.types('hotel-api migrate')).toBe(
    `applied  -\nversion  ${present + 1}\nThe schema is newer than this release (${present}), which supports it.\n`,
  );
  const back = await startService(beside);
  await database.sql`update hotels set name = 'back again' where id = 'chaos-500'`;
  await (await AllWorkers.of(old, back)).until('/hotels/chaos-500', named('back again'));
  expect(await load.stop()).toMatchObject(ALL_ANSWERED);

  // after the next step, rollback is only possible to the release between
  const newest = await makeRelease({ ...EXPAND, ...CONTRACT });
  await (await Operator.set(owner, newest)).types('hotel-api migrate');
  const sentence =
    `The database's schema is at version ${present + 2}, this release knows versions up to ${present} and does not ` +
    `work with ${Object.keys(CONTRACT)[0]}. Deploy the release that made it, or a newer one.`;
  expect(await ofOld.tries('hotel-api migrate')).toMatchObject({
    code: 1,
    stderr: `hotel-api: ${sentence}\n`,
  });
  const tooOld = await startService({ ...beside, awaitReady: false });
  await expect.poll(() => notReadyReasons(tooOld.logs())).toContain(sentence);
  expect(await ofNew.types('hotel-api migrate')).toContain('which supports it');
  await expect.poll(isReady(await startService(ofRelease(newer)))).toBe(true);
});
