import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { readToken, sealed } from '../../src/changes/token.ts';
import { errorsIn } from '../support/log-lines.ts';
import { insertCollection, insertKey } from '../support/rows.ts';
import { startService } from '../support/service.ts';

const HOTELS = Array.from({ length: 30 }, (_, i) => ({ id: `h${i}`, registry_id: 500_000 + i }));

const service = await startService({ hotels: HOTELS });
const pids = await service.workerPids();
await insertCollection(service.sql, 'small', ['h1']);

const forge = (fields: unknown) => sealed(JSON.stringify(fields));

async function lastToken(key: string): Promise<string> {
  return (await service.get('/changes?limit=1000', { key })).json().next;
}

const waiting = () => service.metric('hotel_api_changes_waiting');

it('a forged token of any content shows nothing that the key may not see, and causes no fault', async () => {
  const narrow = await insertKey(service.sql, []);
  const small = await insertKey(service.sql, ['registry'], 'small');
  const token = await lastToken('full');
  const { history, position, transaction } = readToken(token)!;
  const flags = JSON.parse(Buffer.from(token.slice(8), 'base64url').toString()).slice(7);
  const field = fc.oneof(
    fc.constantFrom(
      ...[history, position, transaction, 0, 1, -1, -0, 2 ** 53 - 1, 2 ** 53, 1e300],
      ...[null, '', 'h1', 'small', '\0', '\ud800'],
    ),
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.jsonValue({ maxDepth: 3 }),
  );
  const wellFormed = fc
    .tuple(
      fc.constantFrom(history, 'another'),
      fc.constantFrom(position, 0, position + 1, 2 ** 53 - 1),
      fc.constantFrom(transaction, '0', '9'.repeat(20)),
      fc.constantFrom(0, 1),
      fc.constantFrom(null, '', 'h', 'h1', '\u{10ffff}'),
      fc.constantFrom(null, 'small', 'other'),
      fc.tuple(...flags.map(() => fc.constantFrom(0, 1))),
    )
    .map(([...content]) => [1, ...content.flat()]);
  // the HTTP library rejects longer heads, and closes their connections
  const isSent = (content: unknown) => forge(content).length < 2_000;
  const fields = fc.oneof(wellFormed, fc.array(field, { maxLength: 10 }), field).filter(isSent);
  await fc.assert(
    fc.asyncProperty(fields, fc.constantFrom(narrow, small), async (content, key) => {
      const response = await service.get(`/changes?limit=1000&after=${encodeURIComponent(forge(content))}`, {
        key,
      });
      expect([200, 400, 410]).toContain(response.status);
      if (response.status !== 200) return;
      for (const { id, hotel } of response.json().changes) {
        if (key === narrow) expect(hotel.registry_id).toBeNull();
        else expect([id, hotel?.id ?? 'h1']).toEqual(['h1', 'h1']);
      }
    }),
    { numRuns: 200 },
  );
  expect(errorsIn(service.logs())).toEqual([]);
  expect(await service.workerPids()).toEqual(pids);
});

it('a client that waits is disconnected if it pipelines a request, and its wait ends', async () => {
  const [token, bystander] = [await lastToken('full'), await lastToken('narrow')];
  const others = service.get(`/changes?wait=30&after=${bystander}`, { key: 'narrow' });
  await expect.poll(waiting).toBe(1);
  const head = `HTTP/1.1\r\nhost: a\r\nx-api-key: ${service.fullKey}\r\n\r\n`;
  for (const behind of [`GET /hotels/h1 ${head}`, `GET /changes?wait=30&after=${token} ${head}`])
    expect(await service.raw(`GET /changes?wait=30&after=${token} ${head}${behind}`)).toBe('');
  await expect.poll(waiting).toBe(1);
  await service.sql`update hotels set name = 'changed' where id = 'h2'`;
  expect((await others).json().changes.map(({ id }: { id: string }) => id)).toEqual(['h2']);
  expect(await service.workerPids()).toEqual(pids);
});
