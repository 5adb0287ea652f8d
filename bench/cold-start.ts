import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { REJECTIONS } from '../src/errors.ts';
import { HOTEL_COLUMNS } from '../src/hotels/row.ts';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { openDatabase } from '../src/postgres/connect.ts';
import { splitCores } from './cores.ts';
import { percentile } from './figures.ts';
import { type ExpectedHotel, readHotels } from './hotels.ts';
import type { Call } from './load/call.ts';
import { Connection } from './load/connection.ts';
import { pace } from './load/pace.ts';
import { batch, withChannel } from './scenarios.ts';
import { readMetric } from './targets/service.ts';
import type { Target } from './targets/target.ts';
import { startAlone } from './world.ts';

const CONNECTIONS = 64;
const BATCH = 1000;
/** Share of the rate with an empty Redis. */
const EMPTY_SHARE = 0.4;
const SECONDS = 5;
/** Time after the end in which responses are still awaited. */
const GRACE_MS = 3_000;
const BARE_QUERIES = 40;
const BARE_CONNECTIONS = 4;

/** One second of a load. */
interface Second {
  /** with the expected 200; the others were rejected */
  answered: number;
  /** without any response within the grace period */
  unanswered: number;
  p50Ms: number;
  p99Ms: number;
}

/**
 * Measures the first seconds of instances that have just become ready. The first starts beside a warm instance, with
 * the data in Redis. The second starts with an empty Redis, with a warm-up and without one. Prints them by second.
 */
export async function runColdStart(
  { hotels: count, rate, rounds }: { hotels: number; rate: number; rounds: number },
  shutdown: Shutdown,
): Promise<void> {
  const cores = await splitCores();
  console.error(cores.sentence);
  const { redis, sql, databaseUrl, keys, ...alone } = await startAlone('cold', count, shutdown, cores.server);
  const hotels = await readHotels(sql);
  const calls = batch(BATCH, 2 * rate * SECONDS, CONNECTIONS).calls({ hotels, keys });
  const start = (WARMUP_TIMEOUT_MS: string) => alone.start({ WARMUP_TIMEOUT_MS });
  const client = new Redis(redis.url);
  shutdown.push('connection to Redis', () => client.disconnect());
  for (let round = 1; round <= rounds; round++) {
    console.error(`Round ${round} of ${rounds}, load average ${loadavg()[0]!.toFixed(1)}`);
    await client.flushall();
    // fills Redis too
    const warmOne = await start('12000');
    await load(warmOne, calls, rate);
    const fresh = await start('5000');
    const [ofFresh, ofWarm] = await Promise.all([
      load(fresh, calls, rate),
      load(warmOne, [...calls].reverse(), rate),
    ]);
    print('Fresh instance, Redis warm', rate, ofFresh);
    print('Warm instance beside it', rate, ofWarm);
    await Promise.all([fresh.stop(), warmOne.stop()]);
    for (const timeout of ['5000', '0']) {
      await client.flushall();
      const empty = await start(timeout);
      const warmed = await readMetric(empty, 'hotel_api_local_cache_entries', 'kind="hotel"');
      print(
        `Fresh instance, Redis empty, ${warmed} hotels warmed`,
        EMPTY_SHARE * rate,
        await load(empty, calls, EMPTY_SHARE * rate),
      );
      for (const reason of REJECTIONS) {
        const rejected = await readMetric(empty, 'hotel_api_requests_rejected_total', `reason="${reason}"`);
        if (rejected > 0) console.log(`  ${rejected} rejected: ${reason}`);
      }
      await empty.stop();
    }
    const perSecond = await bareQueries(databaseUrl, hotels);
    console.log(`PostgreSQL alone: ${perSecond.toFixed(0)} queries of ${BATCH} hotels per second`);
  }
}

/** Sends requests at a fixed rate, independent of the responses, and returns what became of those due in each second. */
async function load({ port }: Target, calls: Call[], perSecond: number): Promise<Second[]> {
  const total = SECONDS * perSecond;
  const seconds = Array.from({ length: SECONDS }, () => ({ faults: 0, ms: [] as number[] }));
  const idle: Connection[] = [];
  const due: number[] = [];
  let sent = 0;
  let answered = 0;
  let beganMs = performance.now();
  const send = () => {
    while (due.length > 0 && idle.length > 0) {
      const connection = idle.pop()!;
      connection.dueAtMs = due.shift()!;
      connection.send(calls[sent++ % calls.length]!);
    }
  };
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, () =>
      Connection.open(port, (connection, fault) => {
        const second = seconds[Math.floor((connection.dueAtMs - beganMs) / 1000)]!;
        if (fault) second.faults++;
        else second.ms.push(performance.now() - connection.dueAtMs);
        answered++;
        idle.push(connection);
        send();
      }),
    ),
  );
  idle.push(...connections);
  beganMs = performance.now();
  await pace(
    perSecond,
    (count) => count >= total,
    (dueMs) => {
      due.push(dueMs);
      send();
    },
  );
  const untilMs = performance.now() + GRACE_MS;
  while (answered < total && performance.now() < untilMs) await sleep(10);
  for (const connection of connections) connection.close();
  return seconds.map(({ faults, ms }) => ({
    answered: ms.length,
    unanswered: perSecond - ms.length - faults,
    p50Ms: percentile(ms, 0.5),
    p99Ms: percentile(ms, 0.99),
  }));
}

/** Returns how many queries for a batch PostgreSQL answers per second, whose rows are not parsed. */
async function bareQueries(databaseUrl: string, hotels: ExpectedHotel[]): Promise<number> {
  const sql = openDatabase(databaseUrl, BARE_CONNECTIONS, { kind: 'operate' });
  const named = withChannel(hotels).map(({ channelId }) => channelId!);
  const query = `select ${HOTEL_COLUMNS} from hotels where channel_id = any($1::text[])`;
  const send = (i: number) =>
    sql.unsafe(query, [named.slice(BATCH * i, BATCH * (i + 1))], { prepare: true }).raw();
  await Promise.all(Array.from({ length: BARE_CONNECTIONS }, (_, i) => send(i)));
  const beganMs = performance.now();
  await Promise.all(Array.from({ length: BARE_QUERIES }, (_, i) => send(i)));
  const seconds = (performance.now() - beganMs) / 1000;
  await sql.end();
  return BARE_QUERIES / seconds;
}

/** Prints a line for each second of a load. */
function print(title: string, perSecond: number, seconds: Second[]): void {
  console.log(`${title}, ${perSecond} batches of ${BATCH} per second`);
  for (const [i, { answered, unanswered, p50Ms, p99Ms }] of seconds.entries()) {
    const lost = unanswered > 0 ? `, ${unanswered} without a response` : '';
    const times = `p50 ${p50Ms.toFixed(0)} ms, p99 ${p99Ms.toFixed(0)} ms`;
    console.log(`  second ${i + 1}: ${answered} of ${perSecond} answered${lost}, ${times}`);
  }
}
