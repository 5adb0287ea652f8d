import { expect, it } from 'vitest';
import { AllWorkers, status } from '../support/all-workers.ts';
import { needs } from '../support/needs.ts';
import { startService } from '../support/service.ts';
import { Operator } from './operator.ts';

await needs('bash');

it('a key is rotated with a grace time, and the old one is revoked before it ends', async () => {
  const service = await startService({ workers: 2, hotels: [{ id: 'a' }] });
  const allWorkers = await AllWorkers.of(service);
  const operator = await Operator.set({ DATABASE_URL: service.database.ownerUrl });
  const old = JSON.parse(
    await operator.types('hotel-api keys create --name Acme --scope registry --expires 2999-01-01 --json'),
  );
  await allWorkers.until('/hotels/a', status(200), old.key);

  const created = JSON.parse(
    await operator.types('hotel-api keys rotate "$KEY_ID" --grace 7d --json', { KEY_ID: old.id }),
  );
  expect(created).toMatchObject({
    name: 'Acme',
    scopes: ['registry'],
    expires_at: '2999-01-01T00:00:00.000Z',
  });
  await allWorkers.until('/hotels/a', status(200), created.key);
  await allWorkers.until('/hotels/a', status(200), old.key);
  expect(await operator.types('hotel-api keys list')).toMatch(
    new RegExp(`^${old.id} .*rotated to ${created.id}, valid until 2`, 'm'),
  );

  // all clients use the new key, so the old one need not wait for its expiry
  await operator.types('hotel-api keys revoke "$KEY_ID"', { KEY_ID: old.id });
  await allWorkers.until('/hotels/a', status(401), old.key);
  await allWorkers.until('/hotels/a', status(200), created.key);
});
