import { setTimeout as sleep } from 'node:timers/promises';
import { build } from 'hdr-histogram-js';
import { beforeAll, expect, it } from 'vitest';
import { inForm } from './fault.ts';
import { type Footprint, footprintOf, median } from './footprint.ts';
import { now } from './load.ts';
import { type Mix, type Sample, USUAL_MIX } from './sample.ts';
import { Stand } from './stand.ts';
import { tally } from './tally.ts';

/** 20 minutes; SOAK_S sets another time, in seconds. */
const LASTS_MS = inForm(8_000, 1_000 * Number(process.env.SOAK_S ?? 1_200));
/** By then all is normal again after a repair. */
const RECOVERY_MS = 2_000;
/** A request that is silent for longer is given up by the load: all that were due before have ended. */
const SETTLED_MS = 11_000;

let stand: Stand;

beforeAll(async () => {
  stand = await Stand.open({
    // full within seconds, so that what grows later is no cache
    env: { L1_MAX_BYTES: String(8 * 1024 ** 2) },
    hotels: inForm(4_000, 6_000 + Math.ceil((USUAL_MIX.cold * 1.5 * LASTS_MS) / 1_000)),
  });
});

/** The usual mix, so many times; what is asked for once stays as it is, for there are only so many hotels. */
const times = (factor: number): Mix => ({
  ...USUAL_MIX,
  single: factor * USUAL_MIX.single,
  batch: factor * USUAL_MIX.batch,
});

/** The largest multiple of the usual load that is answered as ever, on this machine beside the load itself. */
async function capacity(): Promise<number> {
  let carried = 1;
  for (let factor = 2; factor <= 32; factor *= 1.5) {
    stand.load.mix(times(factor));
    await sleep(500);
    const fromMs = now();
    await sleep(2_000);
    await stand.load.reported();
    const { p99Ms, ok, requests } = tally(stand.load.between(fromMs, now()));
    if (p99Ms > 100 || ok < requests) break;
    carried = factor;
  }
  stand.load.mix(USUAL_MIX);
  await stand.calm();
  return carried;
}

interface Weather {
  name: string;
  begin: () => unknown;
  end: () => unknown;
  /** connections of a worker end in it */
  losesConnections?: true;
}

const aWorker = async (): Promise<number> => {
  const pids = await stand.service.workerPids();
  return pids[Math.floor(Math.random() * pids.length)]!;
};
const twoWorkers = async () => {
  while (stand.service.logs().filter((line) => line.includes('"worker started"')).length < startedBefore + 1)
    await sleep(10);
};
let startedBefore = 0;
const signalled = async (signal: NodeJS.Signals) => {
  startedBefore = stand.service.logs().filter((line) => line.includes('"worker started"')).length;
  process.kill(await aWorker(), signal);
};

function everyWeather(): Weather[] {
  const { redis, postgres } = stand;
  const heal = (proxy: typeof redis.proxy) => () => proxy.heal();
  return [
    { name: 'Redis frozen', begin: () => redis.server.freeze(), end: () => redis.server.thaw() },
    { name: 'Redis killed', begin: () => redis.server.kill(), end: () => redis.server.restart() },
    { name: 'Redis +200 ms', begin: () => redis.proxy.delay(200), end: heal(redis.proxy) },
    { name: 'Redis half-open', begin: () => redis.proxy.strand(), end: () => {} },
    { name: 'Redis reset', begin: () => redis.proxy.reset(), end: () => {} },
    { name: 'Redis emptied', begin: () => redis.client.flushall(), end: () => {} },
    { name: 'PostgreSQL frozen', begin: () => postgres.server.freeze(), end: () => postgres.server.thaw() },
    { name: 'PostgreSQL killed', begin: () => postgres.server.kill(), end: () => postgres.server.restart() },
    { name: 'PostgreSQL black hole', begin: () => postgres.proxy.blackout(), end: heal(postgres.proxy) },
    { name: 'PostgreSQL half-open', begin: () => postgres.proxy.strand(), end: () => {} },
    { name: 'PostgreSQL reset', begin: () => postgres.proxy.reset(), end: () => {} },
    {
      name: 'worker killed',
      begin: () => signalled('SIGKILL'),
      end: twoWorkers,
      losesConnections: true,
    },
    {
      name: 'worker frozen',
      begin: () => signalled('SIGSTOP'),
      end: twoWorkers,
      losesConnections: true,
    },
  ];
}

it(
  'through random faults nothing grows, nothing wrong is answered, and nothing fails between the faults',
  async (context) => {
    const carried = inForm(1, 0) || (await capacity());
    const factor = Math.max(1, carried / 3);
    stand.load.mix(times(factor));
    await stand.calm();

    const windows: { name: string; fromMs: number; toMs: number; losesConnections: boolean }[] = [];
    const outside = build({ numberOfSignificantValueDigits: 3 });
    const odd: string[] = [];
    let requests = 0;
    let inFaults = 0;
    const beganMs = now();
    let judgedMs = beganMs;
    const judge = (toMs: number) => {
      for (const sample of stand.load.between(judgedMs, toMs)) {
        const { dueMs, tookMs, outcome, kind } = sample;
        requests++;
        const around = windows.filter(({ fromMs, toMs }) => dueMs + tookMs >= fromMs && dueMs <= toMs);
        if (around.length > 0) inFaults++;
        else outside.recordValue(Math.max(1, Math.round(1_000 * tookMs)));
        if (isExcused(sample, around)) continue;
        const last = windows.findLast(({ fromMs }) => fromMs <= dueMs);
        const since = last ? `${Math.round(dueMs - last.fromMs)} ms into ${last.name}` : 'before any fault';
        odd.push(`${kind} ${outcome} ${since}`);
      }
      judgedMs = toMs;
      stand.load.forget(toMs);
    };

    const footprints: Footprint[] = [];
    const weather = everyWeather();
    while (now() - beganMs < LASTS_MS) {
      await sleep(inForm(500, 2_000 + 4_000 * Math.random()));
      const footprint = await footprintOf(stand.service.pid, now());
      if (footprint) footprints.push(footprint);
      const { name, begin, end, losesConnections } = weather[Math.floor(Math.random() * weather.length)]!;
      const window = { name, fromMs: now(), toMs: Infinity, losesConnections: losesConnections === true };
      windows.push(window);
      await begin();
      await sleep(inForm(500, 500 + 4_500 * Math.random()));
      await end();
      window.toMs = now() + RECOVERY_MS;
      await sleep(RECOVERY_MS);
      judge(Math.max(judgedMs, now() - SETTLED_MS));
    }
    await stand.calm();
    const endMs = now();
    stand.load.mix({ single: 0, batch: 0, cold: 0, unknown: 0 });
    // what is still silent is given up by then
    await sleep(inForm(500, SETTLED_MS));
    await stand.load.reported();
    judge(endMs);

    const quarter = Math.floor(footprints.length / 4);
    const part = (at: number) => footprints.slice(at * quarter, (at + 1) * quarter);
    const grew = (of: (footprint: Footprint) => number) =>
      quarter === 0 ? 0 : median(part(3).map(of)) / median(part(1).map(of)) - 1;
    const rss = grew(({ rssBytes }) => rssBytes);
    const descriptors = grew((footprint) => footprint.descriptors);
    context.task.meta.survived = {
      table: 'faults',
      fault: `soak: ${windows.length} random faults at ${Math.round(requests / ((endMs - beganMs) / 1_000))} requests/s, a third of what was carried`,
      measured: {
        lasted: `${Math.round((endMs - beganMs) / 1_000)} s`,
        requests,
        'requests in faults': inFaults,
        'failed or wrong': odd.length,
        'p50 between faults': `${(outside.getValueAtPercentile(50) / 1_000).toFixed(1)} ms`,
        'p99 between faults': `${(outside.getValueAtPercentile(99) / 1_000).toFixed(1)} ms`,
        memory: `${(100 * rss).toFixed(1)} %`,
        descriptors: `${(100 * descriptors).toFixed(1)} %`,
      },
    };
    expect(odd.slice(0, 20), `seen: ${stand.load.faults.slice(-5).map(({ what }) => what)}`).toEqual([]);
    if (LASTS_MS >= 120_000) {
      expect(rss).toBeLessThan(0.1);
      expect(descriptors).toBeLessThan(0.1);
    }
  },
  LASTS_MS + 120_000,
);

/** Between faults only what is as it should be; in them a 503 too, and what a worker took with it. */
function isExcused({ outcome }: Sample, windows: { losesConnections: boolean }[]): boolean {
  if (outcome === 'ok') return true;
  if (outcome === 'unavailable') return windows.length > 0;
  return outcome === 'lost' && windows.some(({ losesConnections }) => losesConnections);
}
