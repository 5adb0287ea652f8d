import type { Shutdown } from '../src/lib/shutdown.ts';
import { splitCores } from './cores.ts';
import { median } from './figures.ts';
import { ChangesMeter } from './mirror/changes-meter.ts';
import { writersOf } from './mirror/writers.ts';
import { startAlone } from './world.ts';

interface MirrorOptions {
  hotels: number;
  clients: number;
  rounds: number;
  /** commit whose schema the writers are compared with */
  before?: string;
}

/** Measures what mirrors cost, and prints it. */
export async function runMirror(options: MirrorOptions, shutdown: Shutdown): Promise<void> {
  const { hotels, rounds } = options;
  const cores = await splitCores();
  console.error(cores.sentence);
  const { postgres, sql, keys, start } = await startAlone('mirror', hotels, shutdown, cores.server);
  const alone = await writersOf(sql, rounds, shutdown, postgres.url('postgres'), options.before);
  const service = await start({ DATABASE_TIMEOUT_MS: '10000' });
  const meter = new ChangesMeter(service, keys.full, sql);
  console.error('Copying all hotels …');
  const copy = await meter.copy();
  const upToDateUs = await meter.upToDate(rounds);
  console.error('Reading pages of changes …');
  const pages = await meter.pages(rounds);
  console.error(`Waiting with ${options.clients} clients …`);
  const waiting = await meter.wait(options.clients, rounds);
  const [log] = await sql`
    select pg_total_relation_size('hotel_api_log')::float8 / sum(cardinality(ids))::float8 as bytes from hotel_api_log`;
  const ratio = (pairs: [number, number][]) =>
    median(pairs.map(([ours, theirs]) => ours / theirs)).toFixed(2);
  const ms = (values: number[]) => median(values).toFixed(1);
  console.log(`nothing new / GET, by CPU time: ${ratio(upToDateUs)} (bound 1.5)`);
  console.log(`page of 1000 changes / cold batch of 1000, by time: ${ratio(pages.pageMs)} (bound 2)`);
  console.log(`the same by CPU time: ${ratio(pages.pageProcessorMs)}`);
  console.log(
    `first copy: ${copy.requests} requests, ${copy.seconds.toFixed(1)} s (bounds 1,000 and 60 for a million)`,
  );
  console.log(
    `${options.clients} waiting clients: ${waiting.workerMiB.toFixed(1)} MiB of the worker (bound 100)`,
  );
  console.log(`the last of them has its response after ${ms(waiting.lastAnswerMs)} ms (bound 1,000)`);
  console.log(`p99 of GETs with them / without: ${ratio(waiting.p99Ms)}`);
  for (const [name, values] of Object.entries(alone.ours)) {
    const before = alone.before?.[name];
    console.log(`${name}: ${ms(values)} ms${before ? `, before ${ms(before)} ms` : ''}`);
  }
  console.log(`log: ${log!.bytes.toFixed(0)} bytes a hotel, indexes included`);
}
