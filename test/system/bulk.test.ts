import type { TransactionSql } from 'postgres';
import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import type { HttpResponse } from '../support/client.ts';
import { linesOf } from '../support/log-lines.ts';
import { residentMiB } from '../support/processes.ts';
import { idsOf } from '../support/responses.ts';
import { insertKey } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

/** More than are listed at once. */
const HOTELS = 60_000;
/** Hotels of one transaction that empties the table and fills it again. */
const RELOADED = HOTELS / 2;
const CACHE_BYTES = 128 * 1024 * 1024;
const MAX_MIB = 420;
const SINGLE = 7;

let service: Service;
let round = 0;
let failures: string[];
/** A transaction holds the table: only what is cached can be served. */
let isLocked = false;

const channelOf = (number: number) => `CH${number}`;
const idOf = (number: number) => `htl_${String(number).padStart(7, '0')}`;
/** Hotels that are asked for all the time. */
const WATCHED = Array.from({ length: 100 }, (_, i) => channelOf((i * 7_919) % RELOADED));

beforeAll(async () => {
  service = await startService({
    workers: 2,
    // a request that meets the lock of a reload waits for its end; that it is rejected after the deadline is another promise
    env: { L1_MAX_BYTES: String(CACHE_BYTES), DATABASE_TIMEOUT_MS: '10000' },
  });
  await insert();
  watch();
});

function insert() {
  return service.sql`
    insert into hotels (id, name, channel_id)
    select 'htl_' || lpad(n::text, 7, '0'), ${`round ${round}`}, 'CH' || n from generate_series(0, ${HOTELS - 1}) n`;
}

/** Asks for hotels and a page all the time; records each response that is not 200. */
function watch(): void {
  failures = [];
  let isStopped = false;
  const asking = (async () => {
    while (!isStopped) {
      const page = () => service.get(`/hotels?limit=50&offset=${HOTELS / 2}`);
      const responses = await Promise.all([batch(WATCHED), ...(isLocked ? [] : [page()])]);
      for (const { status, text } of responses) if (status !== 200) failures.push(`${status} ${text}`);
    }
  })();
  closeAtEnd('the watching clients', async () => {
    isStopped = true;
    await asking;
  });
}

const batch = (ids: string[]): Promise<HttpResponse> =>
  service.post('/hotels/channel/batch', { channel_ids: ids });

/** Returns the names of the watched hotels in as many responses as reach both workers. */
async function namesOf(ids: string[]): Promise<string[]> {
  const responses = await Promise.all(Array.from({ length: 6 }, () => batch(ids)));
  const hotels = responses.flatMap((response) => response.json() as { name: string }[]);
  return [...new Set(hotels.map(({ name }) => name))];
}

async function reload(work: (sql: TransactionSql) => Promise<unknown>): Promise<void> {
  isLocked = true;
  await service.sql.begin(work).finally(() => {
    isLocked = false;
  });
}

async function untilNamed(name: string, ids = WATCHED): Promise<void> {
  await expect.poll(() => namesOf(ids)).toEqual([name]);
}

/** Ends when pages in the middle of the list are those of the table. */
async function untilExact(): Promise<void> {
  const offsets = [1_000, RELOADED / 2, RELOADED - 60];
  const expected = offsets.map((offset) => Array.from({ length: 50 }, (_, i) => idOf(offset + i)));
  const served = () =>
    Promise.all(offsets.map(async (offset) => idsOf(await service.get(`/hotels?limit=50&offset=${offset}`))));
  await expect.poll(served).toEqual(expected);
}

/** Makes a bulk change, then a single one and a revocation right behind it, and checks what clients get. */
async function bulk(change: () => Promise<unknown>): Promise<void> {
  round++;
  failures = [];
  const key = await insertKey(service.sql, []);
  const statuses = async () => {
    const ask = () => service.get(`/hotels/${idOf(SINGLE)}`, { key });
    const responses = await Promise.all(Array.from({ length: 6 }, ask));
    return [...new Set(responses.map(({ status }) => status))];
  };
  await expect.poll(statuses).toEqual([200]);
  await change();
  await service.sql`update hotels set name = 'single' where id = ${idOf(SINGLE)}`;
  await service.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
  await untilNamed('single', [channelOf(SINGLE)]);
  await expect.poll(statuses).toEqual([401]);
  await untilNamed(
    `round ${round}`,
    WATCHED.filter((id) => id !== channelOf(SINGLE)),
  );
  await untilExact();
  const reasons = linesOf(service.logs(), 'request rejected').map(({ reason }) => reason);
  expect(failures, reasons.join()).toEqual([]);
  expect(await residentMiB([service.pid, ...(await service.workerPids())], 'VmHWM')).toBeLessThan(MAX_MIB);
}

describe('while clients ask', () => {
  it('an update of all hotels is served, and a single change right behind it', () =>
    bulk(() => service.sql`update hotels set name = ${`round ${round}`}`));

  it('a table that is emptied and filled again in one transaction is served', () =>
    bulk(() =>
      reload(async (sql) => {
        await sql`truncate hotels cascade`;
        await sql`
          insert into hotels (id, name, channel_id)
          select 'htl_' || lpad(n::text, 7, '0'), ${`round ${round}`}, 'CH' || n
          from generate_series(0, ${RELOADED - 1}) n`;
      }),
    ));
});
