import { beforeAll, describe, expect, it } from 'vitest';
import { ChangeLog } from '../../src/changes/change-log.ts';
import { Postgres } from '../../src/postgres/client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import type { Lane } from '../../src/postgres/lanes.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { readLogState } from '../support/log-state.ts';

const LONG_MS = 60_000;
const MOST = 100;
const HOTELS = 1_100;
const NUMBERS = 'select n from generate_series(1, $1::integer) as n';

let database: FreshDatabase;

beforeAll(async () => {
  database = await freshDatabase();
  await database.sql`
    insert into hotels (id, name) select 'h' || lpad(n::text, 6, '0'), 'Hotel' from generate_series(1, ${HOTELS}) as n`;
});

/** Notes the event-loop iteration and the number of rows of each portion. */
class Watched extends Postgres {
  readonly iterations: number[] = [];
  readonly sizes: number[] = [];

  override async portions<Row>(
    text: string,
    parameters: unknown[],
    most: number,
    take: (rows: Row[]) => void,
    ...rest: [owner?: string, lane?: Lane]
  ): Promise<void> {
    let iteration = 0;
    const count = () => {
      iteration++;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    const watched = (rows: Row[]): void => {
      this.iterations.push(iteration);
      this.sizes.push(rows.length);
      take(rows);
    };
    await super.portions(text, parameters, most, watched, ...rest).finally(() => clearImmediate(next));
  }
}

function open(pooled = false): Watched {
  const connect = () => openDatabase(database.url, 1, { kind: 'serve', deadlineMs: 30_000, pooled });
  const limits = { connections: 1, queueLimit: 10, timeoutMs: LONG_MS };
  const postgres = new Watched(connect, limits, () => {});
  closeAtEnd('PostgreSQL', () => postgres.close());
  return postgres;
}

async function numbers(postgres: Postgres, text: string, parameters: unknown[] = []): Promise<number[]> {
  const taken: number[] = [];
  await postgres.portions<{ n: number }>(text, parameters, MOST, (rows) =>
    taken.push(...rows.map(({ n }) => n)),
  );
  return taken;
}

const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);

describe.each([{ pooled: false }, { pooled: true }])(
  'a large result ($pooled: through a pooler)',
  ({ pooled }) => {
    it.each([0, MOST, 2 * MOST + 1])(
      'of %i rows is read in order, each portion in another iteration',
      async (count) => {
        const postgres = open(pooled);
        expect(await numbers(postgres, NUMBERS, [count])).toEqual(upTo(count));
        const { iterations, sizes } = postgres;
        expect(sizes).toEqual([
          ...new Array(Math.floor(count / MOST)).fill(MOST),
          ...(count % MOST === 0 ? [] : [count % MOST]),
        ]);
        expect(new Set(iterations).size).toBe(iterations.length);
        expect(await postgres.rows('select 1 as one', [])).toEqual([{ one: 1 }]);
      },
    );

    it('that fails after some rows rejects, and its connection serves the next query', async () => {
      const postgres = open(pooled);
      await expect(
        numbers(postgres, 'select 1 / (250 - n) as n from generate_series(1, 1000) as n'),
      ).rejects.toThrow('division by zero');
      expect(postgres.sizes).toEqual([MOST, MOST]);
      expect(await numbers(postgres, NUMBERS, [150])).toEqual(upTo(150));
      expect(await postgres.rows('select 1 as one', [])).toEqual([{ one: 1 }]);
    });
  },
);

it('a page of 1000 hotels never occupies an iteration for more than 101', async () => {
  const { server } = await readLogState(database.sql);
  const walk = open();
  const { hotels } = await new ChangeLog(walk, () => server).hotelsAfter('', 1_000, 'a', null, undefined);
  expect(hotels.map(({ id }) => id)).toEqual(upTo(1_000).map((n) => `h${String(n).padStart(6, '0')}`));
  const log = open();
  const { changes, queued } = await new ChangeLog(log, () => server).changesAfter(0, 1_000, 'a', null);
  expect(new Set([...changes, ...queued].map(({ id }) => id)).size).toBeGreaterThanOrEqual(1_000);
  for (const { iterations, sizes } of [walk, log]) {
    expect(Math.max(...sizes)).toBe(101);
    expect(new Set(iterations).size).toBe(iterations.length);
  }
});
