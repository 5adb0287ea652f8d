import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { childrenOf } from '../../test/support/processes.ts';
import { type Call, requestBytes } from '../load/call.ts';
import { closedLoop } from '../load/closed.ts';
import { Connection, sendOnce } from '../load/connection.ts';
import { openLoop } from '../load/open.ts';
import { processorTimeMs } from '../processor-time.ts';
import { residentBytes } from '../sizing.ts';
import { readMetric } from '../targets/service.ts';
import type { Target } from '../targets/target.ts';
import { isSequencingDue } from '../world.ts';

const MIB = 1024 ** 2;
const PAGE = 1_000;
/** Hotels that are requested from memory. */
const CACHED = 1_000;
const GETS_PER_SECOND = 1_000;

/** A figure, and the one that it is compared with. */
type Pair = [ours: number, theirs: number];

/** Measures `GET /changes` of one service, beside its other reads. */
export class ChangesMeter {
  readonly #service: Target;
  readonly #key: string;
  readonly #sql: Sql;
  #next = '';

  constructor(service: Target, key: string, sql: Sql) {
    this.#service = service;
    this.#key = key;
    this.#sql = sql;
  }

  #call(path: string): Call {
    const bytes = requestBytes({ path, key: this.#key });
    return { bytes, status: 200, bodyBytes: 0, mayBeCompressed: true };
  }

  #changes(after: string, wait = 0): Call {
    return this.#call(`/changes?limit=${PAGE}&wait=${wait}${after && `&after=${after}`}`);
  }

  /** Reads one page; returns the token and `more` of its end. */
  async #page(after: string): Promise<{ next: string; more: boolean }> {
    const { body } = await sendOnce(this.#service.port, this.#changes(after));
    const [, next, more] = /"next":"([\w-]+)","more":(\w+)}$/.exec(
      body.toString('latin1', body.length - 400),
    )!;
    return { next: next!, more: more === 'true' };
  }

  /** Copies all hotels once the service has listed them: a copy made before it reads many of them twice. */
  async copy(): Promise<{ requests: number; seconds: number }> {
    while (await isSequencingDue(this.#sql)) await sleep(100);
    const beganAtMs = performance.now();
    let requests = 0;
    for (let more = true; more; requests++) {
      const page = await this.#page(this.#next);
      this.#next = page.next;
      more = page.more;
    }
    return { requests, seconds: (performance.now() - beganAtMs) / 1000 };
  }

  /** Follows until the service has listed all changes. */
  async #catchUp(): Promise<void> {
    for (let isWaiting = true; isWaiting; ) {
      isWaiting = await isSequencingDue(this.#sql);
      for (let more = true; more; ) {
        const page = await this.#page(this.#next);
        more = page.more;
        if (more || page.next !== this.#next) isWaiting = true;
        this.#next = page.next;
      }
    }
  }

  /** Processor time of the service in ms for some work. */
  async #processorMs(work: () => Promise<unknown>): Promise<number> {
    const before = await processorTimeMs(this.#service.pid);
    await work();
    return (await processorTimeMs(this.#service.pid)) - before;
  }

  async upToDate(rounds: number): Promise<Pair[]> {
    await this.#catchUp();
    const ids = await this.#sql<{ id: string }[]>`select id from hotels order by id limit ${CACHED}`;
    const gets = ids.map(({ id }) => this.#call(`/hotels/${id}`));
    const nothing = [this.#changes(this.#next)];
    const each = async (calls: Call[]) => {
      let requests = 0;
      const ms = await this.#processorMs(async () => {
        const result = await closedLoop(this.#service.port, calls, { connections: 64, seconds: 2 });
        if (result.faultCount > 0) throw new Error(result.faults[0]);
        requests = result.requests;
      });
      return (1000 * ms) / requests;
    };
    await each(gets);
    await each(nothing);
    const queries = () =>
      readMetric(this.#service, 'hotel_api_dependency_duration_seconds_count', 'postgres"');
    const results: Pair[] = [];
    for (let round = 0; round < rounds; round++) {
      const before = await queries();
      const ours = await each(nothing);
      if ((await queries()) - before > 5) throw new Error('a client that is up to date cost queries');
      results.push([ours, await each(gets)]);
    }
    return results;
  }

  async pages(rounds: number): Promise<{ pageMs: Pair[]; pageProcessorMs: Pair[] }> {
    const pagesRead = 10;
    const count = (rounds + 1) * pagesRead * PAGE;
    let after = this.#next;
    await this.#sql`
      update hotels set room_count = coalesce(room_count, 0) + 1
      where id in (select id from hotels order by id desc limit ${count})`;
    await this.#catchUp();
    const cold = await this.#sql<{ channel_id: string }[]>`
      select channel_id from hotels where channel_id is not null order by id offset ${CACHED} limit ${count}`;
    const batches = Array.from({ length: Math.floor(cold.length / PAGE) }, (_, i) =>
      JSON.stringify({ channel_ids: cold.slice(i * PAGE, (i + 1) * PAGE).map((row) => row.channel_id) }),
    );
    const timed = async (work: () => Promise<unknown>): Promise<[ms: number, processorMs: number]> => {
      const beganAtMs = performance.now();
      const processorMs = await this.#processorMs(async () => {
        for (let i = 0; i < pagesRead; i++) await work();
      });
      return [(performance.now() - beganAtMs) / pagesRead, processorMs / pagesRead];
    };
    const pageMs: Pair[] = [];
    const pageProcessorMs: Pair[] = [];
    for (let round = -1; round < rounds; round++) {
      const ours = await timed(async () => {
        const page = await this.#page(after);
        after = page.next;
      });
      const theirs = await timed(() => {
        const json = batches.shift()!;
        const bytes = requestBytes({ path: '/hotels/channel/batch', key: this.#key, json });
        return sendOnce(this.#service.port, { bytes, status: 200, bodyBytes: 0, mayBeCompressed: true });
      });
      if (round < 0) continue;
      pageMs.push([ours[0], theirs[0]]);
      pageProcessorMs.push([ours[1], theirs[1]]);
    }
    return { pageMs, pageProcessorMs };
  }

  async wait(
    clients: number,
    rounds: number,
  ): Promise<{ workerMiB: number; p99Ms: Pair[]; lastAnswerMs: number[] }> {
    await this.#catchUp();
    const [worker] = await childrenOf(this.#service.pid);
    const ids = await this.#sql<{ id: string }[]>`select id from hotels order by id limit ${CACHED}`;
    const gets = ids.map(({ id }) => this.#call(`/hotels/${id}`));
    const p99 = async () => {
      const { p99Us } = await openLoop(this.#service.port, gets, { perSecond: GETS_PER_SECOND, seconds: 4 });
      return p99Us / 1000;
    };
    await p99();
    const before = await residentBytes(worker!);
    let answered = 0;
    const faults: string[] = [];
    let { promise: allAnswered, resolve: done } = Promise.withResolvers<void>();
    const connections: Connection[] = [];
    for (let i = 0; i < clients; i++)
      connections.push(
        await Connection.open(this.#service.port, (_, fault) => {
          if (fault) faults.push(fault);
          if (++answered === clients) done();
        }),
      );
    const p99Ms: Pair[] = [];
    const lastAnswerMs: number[] = [];
    let workerMiB = 0;
    for (let round = 0; round < rounds; round++) {
      const without = await p99();
      await this.#catchUp();
      answered = 0;
      ({ promise: allAnswered, resolve: done } = Promise.withResolvers<void>());
      for (const connection of connections) connection.send(this.#changes(this.#next, 30));
      while ((await readMetric(this.#service, 'hotel_api_changes_waiting')) < clients)
        if (faults.length > 0) throw new Error(faults[0]);
      workerMiB = Math.max(workerMiB, ((await residentBytes(worker!)) - before) / MIB);
      p99Ms.push([await p99(), without]);
      await this.#sql`update hotels set room_count = coalesce(room_count, 0) + 1 where id = ${ids[0]!.id}`;
      const committedAtMs = performance.now();
      await allAnswered;
      if (faults.length > 0) throw new Error(faults[0]);
      lastAnswerMs.push(performance.now() - committedAtMs);
    }
    for (const connection of connections) connection.close();
    return { workerMiB, p99Ms, lastAnswerMs };
  }
}
