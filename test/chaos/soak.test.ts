import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { build } from 'hdr-histogram-js';
import { beforeAll, expect, it } from 'vitest';
import { randomFrom } from '../../bench/draws.ts';
import { inForm, judgesTimes, promisedMs, survived } from '../support/form.ts';
import { needs } from '../support/needs.ts';
import { type Footprint, footprintOf, median } from './footprint.ts';
import { now } from './load.ts';
import { everyOutage, type Outage } from './outages.ts';
import { type Mix, type Sample, USUAL_MIX } from './sample.ts';
import { Fixture } from './service-fixture.ts';
import { counter } from './tally.ts';

await needs('redis-server');

/** 20 minutes; SOAK_S sets another time, in seconds. */
const LASTS_MS = inForm(12_000, 1_000 * Number(process.env.SOAK_S ?? 1_200));
/** The faults of a run, their order and their times; SOAK_SEED repeats them. */
const SEED = Number(process.env.SOAK_SEED ?? randomInt(2 ** 31));
/** By then all is normal again after a repair. */
const RECOVERY_MS = 2_000;
/** Longer than any deadline: 503 comes within 800 ms; on a busy machine whoever waits for one is late too. */
const SLOWEST_MS = promisedMs(800);
/** 99 of 100 answers between faults. */
const NORMAL_MS = 200;
/** A request that is silent for longer is given up by the load: all that were due before have ended. */
const SETTLED_MS = 11_000;
/** Around the first request that should not have ended so, what the service said is told for so long. */
const SAID_WITHIN_MS = 10_000;
/** By then the load has told how late it was. */
const REPORTED_MS = 200;

let fixture: Fixture;

beforeAll(async () => {
  fixture = await Fixture.open({
    // full within seconds, so that what grows later is no cache
    env: { L1_MAX_BYTES: String(8 * 1024 ** 2) },
    // those of a half-open path are forgotten after 25 s, and until then count twice
    maxConnections: 120,
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
    fixture.load.mix(times(factor));
    await sleep(500);
    const fromMs = now();
    await sleep(2_000);
    await fixture.load.reported();
    const { p99Ms, ok, requests } = counter(fixture.load.between(fromMs, now()));
    if (p99Ms > 100 || ok < requests) break;
    carried = factor;
  }
  fixture.load.mix(USUAL_MIX);
  await fixture.calm();
  return carried;
}

it(
  'through random faults nothing grows, nothing wrong is answered, and nothing fails between the faults',
  async (context) => {
    const carried = inForm(1, 0) || (await capacity());
    const factor = Math.max(1, carried / 3);
    fixture.load.mix(times(factor));
    await fixture.calm();

    console.log(`soak: SOAK_SEED=${SEED}`);
    const random = randomFrom(SEED);
    const windows: Window[] = [];
    const outside = build({ numberOfSignificantValueDigits: 3 });
    const odd: string[] = [];
    let oddAtMs: number | undefined;
    let requests = 0;
    let inFaults = 0;
    const beganMs = now();
    let judgedMs = beganMs;
    const judge = (toMs: number) => {
      for (const sample of fixture.load.between(judgedMs, toMs)) {
        const { dueMs, tookMs, outcome, kind } = sample;
        requests++;
        const around = windows.filter(({ fromMs, toMs }) => dueMs + tookMs >= fromMs && dueMs <= toMs);
        if (around.length > 0) inFaults++;
        else outside.recordValue(Math.max(1, Math.round(1_000 * tookMs)));
        const lateMs = tookMs > SLOWEST_MS ? fixture.load.latest(dueMs, dueMs + tookMs + REPORTED_MS) : 0;
        if (isExcused(sample, around, lateMs)) continue;
        const last = windows.findLast(({ fromMs }) => fromMs <= dueMs);
        const since = last ? `${Math.round(dueMs - last.fromMs)} ms into ${last.name}` : 'before any fault';
        odd.push(`${kind} ${outcome} after ${Math.round(tookMs)} ms, ${since}`);
        oddAtMs ??= dueMs;
      }
      judgedMs = toMs;
      fixture.load.forget(toMs);
    };

    const footprints: Footprint[] = [];
    const outages = everyOutage(fixture, random);
    const anyOf = Math.floor(random() * outages.length);
    while (now() - beganMs < LASTS_MS) {
      await sleep(inForm(200, 2_000 + 4_000 * random()));
      const footprint = await footprintOf(fixture.service.pid, fixture.service.port, now());
      if (footprint) footprints.push(footprint);
      // the short form takes them in turn, to meet many
      const at = inForm(anyOf + windows.length, Math.floor(random() * outages.length)) % outages.length;
      const { name, away, begin, end } = outages[at]!;
      // what another fault took from the caches stands there again
      if (away === 'postgres') await fixture.warm();
      const window = { name, away, fromMs: now(), toMs: Infinity };
      windows.push(window);
      await begin();
      await sleep(inForm(500, 500 + 4_500 * random()));
      await end();
      if (inForm(true, false)) {
        await fixture.calm();
        window.toMs = now();
      } else {
        window.toMs = now() + RECOVERY_MS;
        await sleep(RECOVERY_MS);
      }
      judge(Math.max(judgedMs, now() - SETTLED_MS));
    }
    await fixture.calm();
    const endMs = now();
    fixture.load.mix({ single: 0, batch: 0, cold: 0, unknown: 0 });
    // what is still silent is given up by then
    await sleep(inForm(500, SETTLED_MS));
    await fixture.load.reported();
    judge(endMs);

    const quarter = Math.floor(footprints.length / 4);
    const part = (at: number) => footprints.slice(at * quarter, (at + 1) * quarter);
    const grew = (of: (footprint: Footprint) => number, typical: (values: number[]) => number) =>
      quarter === 0 ? 0 : typical(part(3).map(of)) / typical(part(1).map(of)) - 1;
    const rss = grew(({ rssBytes }) => rssBytes, median);
    // those of a half-open path stand for up to 25 s beside the ones that replace them; what is never closed stays in the least
    const descriptors = grew(
      (footprint) => footprint.descriptors,
      (values) => Math.min(...values),
    );
    const lastedS = (endMs - beganMs) / 1_000;
    const p99Ms = outside.getValueAtPercentile(99) / 1_000;
    const fault = `soak: ${windows.length} random faults at ${Math.round(requests / lastedS)} requests/s, a third of what was carried`;
    survived(context, 'faults', fault, {
      lasted: `${Math.round(lastedS)} s`,
      requests,
      'requests in faults': inFaults,
      'failed or wrong': odd.length,
      'p50 between faults': `${(outside.getValueAtPercentile(50) / 1_000).toFixed(1)} ms`,
      'p99 between faults': `${p99Ms.toFixed(1)} ms`,
      memory: `${(100 * rss).toFixed(1)} %`,
      descriptors: `${(100 * descriptors).toFixed(1)} %`,
      seed: SEED,
    });
    const seen = fixture.load.faults.slice(-5).map(({ what }) => what);
    const said = oddAtMs === undefined ? '' : saidAround(oddAtMs);
    const announced = `SOAK_SEED=${SEED}; seen: ${seen}; the service said:\n${said}`;
    expect(odd.slice(0, 20), announced).toEqual([]);
    if (judgesTimes) expect(p99Ms).toBeLessThanOrEqual(NORMAL_MS);
    if (LASTS_MS >= 120_000) {
      expect(rss).toBeLessThan(0.1);
      expect(descriptors).toBeLessThan(0.1);
    }
  },
  LASTS_MS + 120_000,
);

/** What the service logged in the seconds before and after, of its own affairs and not of requests. */
function saidAround(atMs: number): string {
  const isNear = (line: string): boolean => {
    const { time, requestId } = JSON.parse(line);
    return requestId === undefined && Math.abs(Date.parse(time) - atMs) < SAID_WITHIN_MS;
  };
  const lines = fixture.service.logs().filter((line) => line.startsWith('{'));
  return lines.filter(isNear).join('\n');
}

interface Window {
  name: string;
  away: Outage['away'];
  fromMs: number;
  toMs: number;
}

/**
 * Whether a request may have ended so, in the windows of these faults: what has to be asked for may be refused, what
 * caches hold only where it is not PostgreSQL alone that is away; and what a worker had in hand is lost. A right answer
 * may not come later than any deadline, but for what lay before a frozen worker.
 */
function isExcused({ kind, outcome, tookMs }: Sample, windows: Window[], loadLateMs: number): boolean {
  const byWorker = windows.some(({ away }) => away === 'worker');
  if (outcome === 'ok') return byWorker || tookMs <= SLOWEST_MS + loadLateMs;
  if (outcome === 'unavailable') {
    const isCached = kind === 'single' || kind === 'batch';
    return windows.some(({ away }) => !isCached || away !== 'postgres');
  }
  return outcome === 'lost' && byWorker;
}
