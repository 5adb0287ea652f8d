import { beforeAll, expect, it, vi } from 'vitest';
import { randomFrom } from '../../bench/draws.ts';
import { disturb } from '../history/faults.ts';
import { Follower } from '../history/follower.ts';
import { read } from '../history/reader.ts';
import { type Random, type System, startSystem, type View, versionOf } from '../history/system.ts';
import { IDS, write } from '../history/writers.ts';
import { AllWorkers } from '../support/all-workers.ts';
import { needs } from '../support/needs.ts';
import { HANG_MS } from '../support/projects.ts';

await needs('faketime', 'redis-server');

/** .ci/nightly runs others, and more. */
const SEED = Number(process.env.HISTORY_SEED ?? 1);
const HISTORIES = Number(process.env.HISTORIES ?? 1);
const WRITERS = 3;
const READERS = 3;
const VIEWS: View[] = ['full', 'narrow', 'collection', 'full', 'collection'];

let system: System;

beforeAll(async () => {
  // an odd first seed: a Redis for each service
  system = await startSystem(SEED % 2 === 1);
});

/** Returns generators that a seed determines, by number. */
function drawsOf(seed: number): (part: number) => Random {
  return (part) => {
    const draw = randomFrom(1000 * seed + part);
    return (below) => Math.floor(draw() * below);
  };
}

/** Resolves when every worker shows the hotels of the writers as the table does, and notes that moment. */
async function equalEverywhere(): Promise<void> {
  const rows = await system.sql<{ id: string; name: string }[]>`
    select id, name from hotels where id ~ '^h[0-9]+$' order by id collate "C"`;
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  // a worker that was killed may still be starting
  const all = await vi.waitFor(() => AllWorkers.of(...system.services), { timeout: HANG_MS });
  for (let i = 0; i < IDS; i++) {
    const name = names.get(`h${i}`);
    await all.until(`/hotels/h${i}`, (response) =>
      name === undefined ? response.status === 404 : response.json().name === name,
    );
  }
  system.floor = new Map(rows.map(({ id, name }) => [id, versionOf(name)]));
}

it.each(Array.from({ length: HISTORIES }, (_, i) => [SEED + i]))(
  'mirrors equal PostgreSQL, row by row, and no response is older than what was everywhere before, in the history of seed %i',
  async (seed) => {
    const randomOf = drawsOf(seed);
    const disturbing = disturb(system, randomOf(20));
    const writing = Array.from({ length: WRITERS }, (_, i) => write(system, randomOf(i)));
    let isOver = false;
    const goesOn = () => !isOver;
    const ended = Promise.all([disturbing, ...writing]).finally(() => {
      isOver = true;
    });
    const followers = VIEWS.map((view, i) => new Follower(system, randomOf(10 + i), view));
    const following = followers.map((follower) => follower.requestWhile(goesOn));
    const reading = Array.from({ length: READERS }, (_, i) => read(system, randomOf(30 + i), goesOn));
    await Promise.all([ended, ...following, ...reading]);
    for (const follower of followers) await expect.poll(() => follower.difference()).toBe('');
    await equalEverywhere();
    console.log(`seed ${seed}: ${(await disturbing).join(', ')}`);
  },
);
