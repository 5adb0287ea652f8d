import { afterEach, expect, it } from 'vitest';
import { realClocks, showMonotonic } from '../lib/clock.fixture.ts';
import type { Postgres } from './client.ts';

import { type Applied, Origin } from './origin.ts';

type Rows = { label: number; history: string; server: string | null; found: true | null; id?: string }[];

/** A server that answers with the newest row of its log. */
class Server {
  label = 7;
  history = 'one';
  server: string | null = 'a';
  ids: string[] = ['h'];
  breakerOpen = false;
  reads = 0;
  /** called before it answers */
  during = (): void => {};

  async rows(): Promise<Rows> {
    this.reads++;
    const { label, history, server, ids } = this;
    this.during();
    if (ids.length === 0) return [{ label, history, server, found: null }];
    return ids.map((id) => ({ label, history, server, found: true, id }));
  }
}

function originOf(...servers: Server[]) {
  const known = {
    applied: { history: 'one', server: 'a', position: 7 } as Applied | undefined,
    mayCompareReplicas: true,
  };
  const counted: string[] = [];
  let behind = 0;
  const [primary, ...replicas] = servers as unknown as Postgres[];
  const origin = new Origin({
    primary: primary!,
    replicas,
    applied: () => known.applied,
    mayCompareReplicas: () => known.mayCompareReplicas,
    onBehind: () => behind++,
    count: (outcome) => counted.push(outcome),
  });
  const read = async () => {
    const { label, rows } = await origin.read<{ id: string }>('select id', []);
    return [label, ...rows.map(({ id }) => id)];
  };
  return { origin, known, counted, read, behind: () => behind };
}

afterEach(realClocks);

const BEHIND = { name: 'Unavailable', rejection: 'postgres_unavailable' };

it('a primary that is behind, has another history or is a copy answers nothing and is reported', async () => {
  const primary = new Server();
  const { read, behind } = originOf(primary);
  primary.label = 6;
  await expect(read()).rejects.toMatchObject(BEHIND);
  primary.label = 7;
  expect(await read()).toEqual([7, 'h']);
  primary.history = 'two';
  await expect(read()).rejects.toMatchObject(BEHIND);
  [primary.history, primary.server] = ['one', 'b'];
  await expect(read()).rejects.toMatchObject(BEHIND);
  // a log without rows is not the one that was applied
  primary.rows = async () => [];
  await expect(read()).rejects.toMatchObject(BEHIND);
  expect(behind()).toBe(4);
});

it('a read during which another history was found answers nothing, and one during which changes were applied does', async () => {
  const primary = new Server();
  const { known, read } = originOf(primary);
  // in place, as the worker does
  primary.during = () => {
    known.applied!.position = 9;
  };
  expect(await read()).toEqual([7, 'h']);
  primary.label = 9;
  primary.during = () => {
    known.applied!.history = 'two';
  };
  await expect(read()).rejects.toMatchObject(BEHIND);
});

it('replicas are read in turn, and the primary answers for one that is behind or fails', async () => {
  const [primary, first, second] = [new Server(), new Server(), new Server()];
  const { read, counted } = originOf(primary, first, second);
  for (const [i, server] of [primary, first, second].entries()) server.ids = [`${i}`];
  expect([await read(), await read(), await read()]).toEqual([
    [7, '1'],
    [7, '2'],
    [7, '1'],
  ]);
  second.label = 6;
  expect(await read()).toEqual([7, '0']);
  // for longer than its pause
  second.breakerOpen = true;
  expect(await read()).toEqual([7, '1']);
  first.rows = () => Promise.reject(new Error('lost'));
  expect(await read()).toEqual([7, '0']);
  first.breakerOpen = true;
  expect(await read()).toEqual([7, '0']);
  expect(counted).toEqual(['answered', 'answered', 'answered', 'behind', 'answered', 'failed', 'left_alone']);
});

it('a replica that was behind is left alone for 25 ms, and then read by one probe', async () => {
  let nowMs = 1_000;
  showMonotonic(() => nowMs);
  const [primary, replica] = [new Server(), new Server()];
  const { origin, read, counted } = originOf(primary, replica);
  replica.label = 6;
  await read();
  nowMs += 24;
  await read();
  nowMs += 1;
  await Promise.all([read(), read()]);
  expect(origin.lagsMs).toEqual([25]);
  replica.label = 7;
  nowMs += 25;
  await Promise.all([read(), read()]);
  await read();
  expect(origin.lagsMs).toEqual([0]);
  const probed = ['left_alone', 'behind', 'left_alone', 'answered', 'answered'];
  expect(counted).toEqual(['behind', 'left_alone', ...probed]);
});

it('replicas are left alone while they cannot be compared', async () => {
  const [primary, replica] = [new Server(), new Server()];
  const { known, read, counted } = originOf(primary, replica);
  known.mayCompareReplicas = false;
  await read();
  known.mayCompareReplicas = true;
  await read();
  known.applied = undefined;
  await read();
  expect(counted).toEqual(['left_alone', 'answered', 'left_alone']);
  expect([primary.reads, replica.reads]).toEqual([2, 1]);
});
