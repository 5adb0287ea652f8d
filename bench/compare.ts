import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { median } from './figures.ts';
import { processorTimeMs } from './processor-time.ts';
import { runScenario } from './rounds.ts';
import { SCENARIOS } from './scenarios.ts';
import { startService } from './targets/service.ts';
import type { Target, TargetOptions } from './targets/target.ts';
import { warm } from './warm.ts';
import { makeDatabase, redisUrlOf, startWorld, type World } from './world.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const HOTELS = 100_000;
const THIRD_BYTES = 44_000_000;
const COMPARED = [
  ...['get', 'get-channel', 'get-go', 'get-python', 'batch-10', 'batch-1000', 'batch-1000-go'],
  ...['batch-1000-python', 'page-20', 'page-20-go', 'unknown-key'],
];
/** First of the two Redis databases. */
const FIRST_REDIS_DATABASE = 4;
/** Smaller changes are indistinguishable from those of memory layout and chance. */
const MIN_CHANGE = 0.02;
/** Processor time of an idle instance in a second; it polls, or is polled. */
const IDLE_MS = 100;
const STOP_DEADLINE_MS = 12_000;

/**
 * Runs the service of two commits alternately on the same servers and hotels, with a local cache for all, a third and none of them.
 * Every round starts both anew, in alternating order: two processes of one commit differ by up to 13 %, because each has
 * another layout of memory. A change is reported if it exceeds 2% and all rounds agree on its direction, which happens by
 * chance once in 64 times for seven rounds.
 */
export async function compareCommits(
  a: string,
  b: string,
  rounds: number,
  only: string[] | undefined,
  shutdown: Shutdown,
): Promise<void> {
  const world = await startWorld(HOTELS, { wrk: true, nginx: false }, shutdown, console.error);
  console.error(world.cores.sentence);
  const commits: Commit[] = [];
  for (const [i, commit] of [a, b].entries()) {
    const root = checkOut(commit, join(world.folder, `tree_${i}`));
    commits.push({ root, ...(await addressesOf(root, world, FIRST_REDIS_DATABASE + i)) });
  }
  const scenarios = SCENARIOS.filter(({ name }) => (only ?? COMPARED).includes(name));
  console.log(`A = ${a}, B = ${b}; CPU time a request in us; B / A below 1: B is cheaper\n`);
  for (const [mode, environment] of [
    ['local cache', {}],
    ['a local cache for a third of the hotels', { L1_MAX_BYTES: String(THIRD_BYTES) }],
    ['Redis only', { L1_MAX_BYTES: '0' }],
  ] as const) {
    /** of each scenario, of A and of B, by round */
    const times = scenarios.map((): [number[], number[]] => [[], []]);
    for (let round = 0; round < rounds; round++) {
      const order = round % 2 === 0 ? [0, 1] : [1, 0];
      const pair: Target[] = [];
      for (const i of order) {
        // the first name is measured first
        const name = pair.length === 0 ? 'service' : 'service-redis';
        const { root, ...addresses } = commits[i]!;
        const target = await startService(
          { ...world.targetOptions, ...addresses },
          { name, root, environment },
        );
        shutdown.push(`${mode}, round ${round}`, target.stop, 12_000);
        await warm(target, world);
        pair.push(target);
      }
      for (const [at, scenario] of scenarios.entries()) {
        const cells = await runScenario(world, scenario, pair, { rounds: 1, seconds: 2 });
        for (const [place, i] of order.entries())
          times[at]![i as 0 | 1].push(cells[place]!.rounds[0]!.processorUs);
      }
      for (const target of pair) await target.stop();
    }
    for (const [at, { title }] of scenarios.entries()) report(`${title} (${mode})`, ...times[at]!);
  }
}

/** One of the two commits: its files, and its database and Redis database. */
interface Commit extends Addresses {
  root: string;
}

type Addresses = Pick<TargetOptions, 'databaseUrl' | 'redisUrl'>;

function report(title: string, a: number[], b: number[]): void {
  const ratios = b.map((time, i) => time / a[i]!);
  const [low, high, middle] = [Math.min(...ratios), Math.max(...ratios), median(ratios)];
  let decision = 'no change beyond the noise';
  if (high < 1 && middle < 1 - MIN_CHANGE) decision = 'B is cheaper';
  if (low > 1 && middle > 1 + MIN_CHANGE) decision = 'B is more expensive';
  const of = (times: number[]) => median(times).toFixed(1).padStart(8);
  console.log(
    `${title.padEnd(46)} A ${of(a)}  B ${of(b)}  B / A ${middle.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})  ${decision}`,
  );
}

/**
 * Returns the database and the Redis of the world: commits with the same schema must encode hotels alike. If the tree needs
 * another schema, makes a database with the same hotels and keys, beside which an instance of the tree runs on this Redis
 * database.
 */
export async function addressesOf(root: string, world: World, redisDatabase: number): Promise<Addresses> {
  const [own, needed] = [ROOT, root].map((each) => readdirSync(join(each, 'sql')).sort());
  if (isDeepStrictEqual(own, needed)) return world.targetOptions;
  const { sql, databaseUrl } = await makeDatabase(world, basename(root), world.hotels.length, root);
  const keys = await world.sql`select id, name, key_sha256, scopes from api_keys`;
  await sql`insert into api_keys ${sql(keys)}`;
  const addresses = { databaseUrl, redisUrl: redisUrlOf(world.redis, redisDatabase) };
  await startBeside({ ...world.targetOptions, ...addresses }, world.shutdown, root);
  return addresses;
}

/**
 * Starts an instance that no scenario requests, beside the load generator, and waits until it has dealt with the seeded
 * hotels. In some releases one instance does work for all, which would otherwise count as that of the one under test.
 */
async function startBeside(targetOptions: TargetOptions, shutdown: Shutdown, root: string): Promise<void> {
  const { pid, stop } = await startService({ ...targetOptions, pin: [] }, { name: 'service', root });
  shutdown.push('instance beside', stop, STOP_DEADLINE_MS);
  for (let usedMs = 0, beforeMs = -Infinity; usedMs - beforeMs > IDLE_MS; ) {
    beforeMs = usedMs;
    await sleep(1_000);
    usedMs = await processorTimeMs(pid);
  }
}

/** Checks out a commit into a folder, with the packages of the working tree if it depends on the same, else its own. */
export function checkOut(commit: string, folder: string): string {
  if (commit === '.') return ROOT;
  const maxBuffer = 256 * 1024 * 1024;
  const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, maxBuffer });
  mkdirSync(folder);
  // unlike a work tree, an archive leaves nothing in the repository if the run is killed
  execFileSync('tar', ['-x', '-C', folder], { input: git('archive', commit) });
  const dependenciesOf = (root: string) =>
    JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).dependencies;
  if (isDeepStrictEqual(dependenciesOf(folder), dependenciesOf(ROOT)))
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  else execFileSync('npm', ['ci', '--silent'], { cwd: folder, stdio: 'inherit' });
  return folder;
}
