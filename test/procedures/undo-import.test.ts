import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { needs } from '../support/needs.ts';
import { startService } from '../support/service.ts';
import { Operator } from './operator.ts';
import { DEADLINES } from './requests.ts';

const HOTELS = Array.from({ length: 200 }, (_, i) => ({
  id: `h${i}`,
  name: `Right ${i}`,
  channel_id: `C${i}`,
  registry_id: `${9_007_199_254_740_000n + BigInt(i)}`,
}));
await needs('bash');

describe('a bad import', () => {
  it('is undone by an earlier export: changed, added and deleted hotels are restored', async () => {
    const service = await startService({ workers: 2, hotels: HOTELS, env: DEADLINES });
    const allWorkers = await AllWorkers.of(service);
    const operator = await Operator.set({ DATABASE_URL: service.database.ownerUrl });
    const before = await Promise.all(HOTELS.map(({ id }) => service.get(`/hotels/${id}`)));
    expect(new Set(before.map((response) => response.status))).toEqual(new Set([200]));

    await operator.types('hotel-api export before.ndjson.gz');
    // changes, swapped channel ids, added hotels, and with --delete-missing deleted hotels
    const bad = HOTELS.slice(50).map((hotel, i) => ({
      ...hotel,
      name: 'Wrong',
      channel_id: HOTELS[50 + ((i + 1) % 150)]!.channel_id,
    }));
    const lines = [...bad, { id: 'new', name: 'Wrong too', channel_id: 'C0' }].map((row) =>
      JSON.stringify(row),
    );
    await writeFile(join(operator.folder, 'bad.ndjson'), `${lines.join('\n')}\n`);
    await operator.types('hotel-api import bad.ndjson --delete-missing --delete-at-most 25%');
    await allWorkers.until('/hotels/channel/C0', named('Wrong too'));
    await allWorkers.until('/hotels/h7', status(404));

    expect(
      JSON.parse(await operator.types('hotel-api import before.ndjson.gz --delete-missing --dry-run --json')),
    ).toMatchObject({ inserted: 50, updated: 150, unchanged: 0, deleted: 1, rejected: 0 });
    await operator.types('hotel-api import before.ndjson.gz --delete-missing');
    await allWorkers.until('/hotels/new', status(404));
    await allWorkers.until('/hotels/channel/C0', named('Right 0'));
    for (const [i, { id }] of HOTELS.entries())
      await allWorkers.until(`/hotels/${id}`, (response) => response.text === before[i]!.text);
    await operator.types(
      'hotel-api export after.ndjson.gz && cmp <(gunzip -c before.ndjson.gz) <(gunzip -c after.ndjson.gz)',
    );
  });
});
