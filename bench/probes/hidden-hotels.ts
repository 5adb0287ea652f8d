import { createKey } from '../../src/cli/keys.ts';
import { randomFrom } from '../draws.ts';
import { type Call, requestBytes } from '../load/call.ts';
import { Connection } from '../load/connection.ts';
import type { Target } from '../targets/target.ts';
import type { World } from '../world.ts';
import type { Probe } from './probe.ts';

const COLLECTION = 'bench-one';
const BATCH = 1000;
const EMPTY = '[]';
const NOT_FOUND = '{"error":"Hotel not found"}';

/**
 * Requests for cached hotels outside the key's collection, beside those for ids that no hotel has, one by one in random order: how
 * often the one takes longer than the other, as the area under the ROC curve (Mann and Whitney's U), 0.5 to 1. At 0.5 the times
 * tell nothing. Both get the same responses.
 */
export async function hiddenHotels(world: World, target: Target, rounds: number): Promise<Probe[]> {
  const { sql, hotels } = world;
  await sql`insert into collections (id, name) values (${COLLECTION}, 'bench') on conflict do nothing`;
  await sql`insert into collection_hotels (collection_id, hotel_id) values (${COLLECTION}, ${hotels[0]!.id}) on conflict do nothing`;
  const { key } = await createKey(sql, { name: 'bench, of one hotel', collection: COLLECTION });
  const random = randomFrom(1);
  const hidden = () => hotels[1 + Math.floor(random() * (hotels.length - 1))]!.id;
  const absent = () => hidden().replace(/...$/, '---');

  const get = (id: string): Call => ({
    bytes: requestBytes({ path: `/hotels/${id}`, key }),
    status: 404,
    bodyBytes: NOT_FOUND.length,
  });
  const batch = (draw: () => string): Call => {
    const ids = new Set<string>();
    while (ids.size < BATCH) ids.add(draw());
    return {
      bytes: requestBytes({ path: '/hotels/batch', key, json: JSON.stringify({ ids: [...ids] }) }),
      status: 200,
      bodyBytes: EMPTY.length,
    };
  };
  const kinds: [Probe['name'], string, number, (draw: () => string) => Call][] = [
    ['hidden-get', 'GETs by id', 10_000, (draw) => get(draw())],
    ['hidden-batch', `batches of ${BATCH} ids`, 1_000, batch],
  ];
  const probes: Probe[] = [];
  for (const [name, title, count, callOf] of kinds) {
    const ours: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const calls = Array.from({ length: 2 * count }, (_, i) => ({ isHidden: i % 2 === 0, order: random() }))
        .sort((a, b) => a.order - b.order)
        .map(({ isHidden }) => ({ isHidden, call: callOf(isHidden ? hidden : absent) }));
      const times = await timesOf(
        target.port,
        calls.map(({ call }) => call),
      );
      const area = areaUnderCurve(calls.map(({ isHidden }, i) => ({ isHidden, ms: times[i]! })));
      ours.push(Math.max(area, 1 - area));
    }
    const what = `${title}, ${count} of hidden hotels and ${count} of absent ids: area under the ROC curve of their times`;
    probes.push({ name, what, ours, theirs: ours.map(() => 1) });
  }
  return probes;
}

/** Sends the requests one after the other; returns their times in ms. */
async function timesOf(port: number, calls: Call[]): Promise<number[]> {
  let answered: PromiseWithResolvers<void>;
  const connection = await Connection.open(port, (_, fault) => {
    if (fault) answered.reject(new Error(fault));
    else answered.resolve();
  });
  const times: number[] = [];
  for (const call of calls) {
    answered = Promise.withResolvers();
    const beganAtMs = performance.now();
    connection.send(call);
    await answered.promise;
    times.push(performance.now() - beganAtMs);
  }
  connection.close();
  return times;
}

function areaUnderCurve(measured: { isHidden: boolean; ms: number }[]): number {
  const sorted = measured.toSorted((a, b) => a.ms - b.ms);
  let hidden = 0;
  let below = 0;
  for (const { isHidden } of sorted) {
    if (isHidden) hidden++;
    else below += hidden;
  }
  return below / (hidden * (sorted.length - hidden));
}
