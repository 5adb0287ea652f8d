import { median } from './figures.ts';
import { SIZES } from './probes/compressed-gets.ts';
import type { ProbeName } from './probes/probe.ts';
import type { Results } from './results.ts';
import { type Cell, type Round, soundPairs } from './rounds.ts';
import { CLIENTS } from './scenarios.ts';
import type { TargetName } from './targets/target.ts';

/** Target of the project for a ratio: a floor that must hold and an aim. */
interface Promised {
  title: string;
  floor: number;
  aim: number;
  /** true: smaller is better */
  atMost?: boolean;
  of: Compared | { probe: ProbeName };
}

interface Compared {
  scenario: string;
  /** the scenario of theirs, if it is another */
  theirScenario?: string;
  /** CPU time a request: theirs / ours; rate, requests a second: ours / theirs. Above 1, ours is better. */
  by: 'CPU time' | 'rate';
  theirs: TargetName;
  ours: TargetName;
  /** two servers whose own ratio divides this one: what differs between them too is not ours */
  control?: Pick<Compared, 'theirs' | 'ours'> | undefined;
}

export interface Ratio {
  title: string;
  floor: number;
  aim: number;
  atMost: boolean;
  /** value of each round */
  rounds: number[];
  value: number;
  /** measure of a comparison of two servers, and the value of the other measure */
  by?: Compared['by'];
  other?: number;
  decision: 'aim' | 'floor' | 'missed';
}

const PROMISED: Promised[] = [
  compare('GET by id: the upper bound', 'CPU time', 'get', 'limit', 'service', 0.75, 0.85),
  compare('GET by id: nginx + Lua', 'CPU time', 'get', 'nginx', 'service', 1.05, 1.2),
  compare('GET by id: Fastify', 'CPU time', 'get', 'fastify', 'service', 3, 3.5),
  compare('batch of 1000: the upper bound', 'rate', 'batch-1000', 'limit', 'service', 0.3, 0.45),
  compare('batch of 1000: nginx + Lua', 'rate', 'batch-1000', 'nginx', 'service', 2, 3),
  compare('batch of 1000: Fastify', 'rate', 'batch-1000', 'fastify', 'service', 12, 20),
  compare('Redis only, GET by id: Fastify', 'CPU time', 'get', 'fastify', 'service-redis', 1.5, 2),
  compare('Redis only, batch of 1000: Fastify', 'CPU time', 'batch-1000', 'fastify', 'service-redis', 5, 10),
  compare('Redis only, GET by id: nginx + Lua', 'rate', 'get', 'nginx-redis', 'service-redis', 1.1, 1.3),
  compare(
    'Redis only, batch of 1000: nginx + Lua',
    'rate',
    'batch-1000',
    'nginx-redis',
    'service-redis',
    1.1,
    1.5,
  ),
  compare('metrics, request ids, logging: off / on', 'CPU time', 'get', 'bare', 'service', 0.95, 0.98),
  probe('1000 cold ids: our time / the bare SQL query', 'cold', 3, 1.5),
  probe('a million hotels: page at 999,900 / page at 0', 'deep-page', 2, 1.2),
  ...SIZES.flatMap((size) =>
    CLIENTS.flatMap(([client, accept]) => {
      const title = `GET of ${size / 1000} kB, \`${accept}\``;
      const scenario = `get-${size}-${client}`;
      return [
        beside(`get-${size}`, scenario, `${title}: uncompressed`, 0.8, 0.95),
        beside(`get-${size}-go`, scenario, `${title}: nginx with gzip`, 2.5, 4, 'nginx'),
      ];
    }),
  ),
  beside(
    'before-batch-1000-go',
    'before-batch-1000-go',
    'batch of 1000, gzip: the version before',
    1.3,
    2,
    'before',
  ),
  beside('batch-1000', 'batch-1000-ids', 'batch of 1000 by own id: by channel id', 0.95, 1),
  beside('batch-20', 'page-20', 'list of 20: batch of 20', 0.8, 1),
  beside('batch-100', 'page-100', 'list of 100: batch of 100', 0.8, 1),
  beside('before-page-20-go', 'before-page-20-go', 'list of 20, gzip: the version before', 2, 5, 'before'),
  atLeast('batch of 1000: no local cache / one for a third of the hotels', 'partial-cache-batch', 0.9, 1.3),
  atLeast('the same, Zipf', 'partial-cache-zipf', 0.9, 1.3),
  atLeast('GET by id: no local cache / one for a third of the hotels', 'partial-cache-get', 0.95, 1.1),
  probe('GET by id: a key of a collection / one without', 'collection-get', 1.2, 1),
  probe('batch of 1000: a key of a collection / one without', 'collection-batch', 1.4, 1),
  probe('list of 20: a key of a collection / one without', 'collection-list', 1.3, 1),
  probe('times of GETs for hidden and absent hotels, area under the ROC curve', 'hidden-get', 0.52, 0.51),
  probe('the same, batches of 1000', 'hidden-batch', 0.55, 0.53),
  ...[2, 4].flatMap((count) =>
    ['get', 'batch-1000'].map((name): Promised => {
      const title = `${name === 'get' ? 'GET by id' : 'batch of 1000'}: 1 worker / ${count} workers`;
      const divided = `${title}, divided by that of the upper bound`;
      const control = { theirs: 'limit-1', ours: `limit-${count}` } as const;
      return compare(
        divided,
        'CPU time',
        `workers-${name}`,
        'workers-1',
        `workers-${count}`,
        0.9,
        1,
        control,
      );
    }),
  ),
  probe(
    'event-loop delay p99 with 50 batches of 1000 at once, s (bound of a bucket)',
    'event-loop',
    0.05,
    0.05,
  ),
];

function compare(
  title: string,
  by: Compared['by'],
  scenario: string,
  theirs: TargetName,
  ours: TargetName,
  floor: number,
  aim: number,
  control?: Compared['control'],
): Promised {
  return { title, floor, aim, of: { scenario, by, theirs, ours, control } };
}

function probe(title: string, name: ProbeName, floor: number, aim: number): Promised {
  return { title, floor, aim, atMost: true, of: { probe: name } };
}

function atLeast(title: string, name: ProbeName, floor: number, aim: number): Promised {
  return { title, floor, aim, of: { probe: name } };
}

/** One scenario of the service beside another one, of it or of another server. */
function beside(
  theirScenario: string,
  scenario: string,
  title: string,
  floor: number,
  aim: number,
  theirs: TargetName = 'service',
): Promised {
  const of: Compared = { scenario, theirScenario, by: 'CPU time', theirs, ours: 'service' };
  return { title, floor, aim, of };
}

/** Computes the ratios of a run from neighbouring measurements, round by round. Rows without figures are omitted. */
export function ratiosOf(results: Results): Ratio[] {
  return PROMISED.flatMap(({ title, floor, aim, atMost = false, of }) => {
    const { rounds, ...other } = 'probe' in of ? ofProbe(results, of.probe) : ofCells(results.cells, of);
    if (rounds.length === 0) return [];
    const value = median(rounds);
    const reaches = (bound: number) => (atMost ? value <= bound : value >= bound);
    const decision = reaches(aim) ? 'aim' : reaches(floor) ? 'floor' : 'missed';
    return [{ title, floor, aim, atMost, rounds, value, ...other, decision }];
  });
}

type Measured = Pick<Ratio, 'rounds' | 'by' | 'other'>;

function ofProbe({ probes }: Results, name: ProbeName): Measured {
  const found = probes.find((each) => each.name === name);
  return { rounds: found ? found.ours.map((ours, i) => ours / found.theirs[i]!) : [] };
}

function ofCells(cells: Cell[], { control, ...compared }: Compared): Measured {
  const measured = withoutControl(cells, compared);
  if (!control) return measured;
  const divisors = withoutControl(cells, { ...compared, ...control }).rounds;
  const rounds = measured.rounds.slice(0, divisors.length).map((ratio, i) => ratio / divisors[i]!);
  return { rounds, by: compared.by };
}

function withoutControl(
  cells: Cell[],
  { scenario, theirScenario = scenario, by, theirs, ours }: Omit<Compared, 'control'>,
): Measured {
  const roundsOf = (name: string, target: string) =>
    cells.find((cell) => cell.scenario === name && cell.target === target)?.rounds ?? [];
  const rounds = Math.min(roundsOf(theirScenario, theirs).length, roundsOf(scenario, ours).length);
  if (rounds === 0) return { rounds: [] };
  const pairs = roundsOf(scenario, ours)
    .slice(0, rounds)
    .map((round, i) => [round, roundsOf(theirScenario, theirs)[i]!]);
  const compared = soundPairs(pairs) as [Round, Round][];
  const rate = ({ requests, seconds }: Round) => requests / seconds;
  const byRate = compared.map(([right, left]) => rate(right) / rate(left));
  const byProcessorTime = compared.map(([right, left]) => left.processorUs / right.processorUs);
  return by === 'rate'
    ? { rounds: byRate, by, other: median(byProcessorTime) }
    : { rounds: byProcessorTime, by, other: median(byRate) };
}
