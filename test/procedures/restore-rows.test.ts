import { describe, it } from 'vitest';
import { migrate } from '../../src/postgres/migrate.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { serverPrograms } from '../support/programs.ts';
import { insertHotels } from '../support/rows.ts';
import { startService } from '../support/service.ts';
import { Operator } from './operator.ts';

const programs = await serverPrograms();
await needs('bash', 'pg_dump');

describe('pg_restore --data-only', () => {
  it('brings deleted hotels back under a running service', async () => {
    const server = await ownPostgres(100, programs);
    const sql = postgresClient(server.ownerUrl, { max: 2 });
    await migrate(sql);
    await insertHotels(
      sql,
      Array.from({ length: 1_500 }, (_, i) => ({
        id: `h${i}`,
        name: 'dumped',
        website_url: 'https://a.example',
        images: [{ url: 'https://a.example/1.jpg', caption: null }],
      })),
    );
    const service = await startService({
      workers: 2,
      database: databaseAt(server.url, server.ownerUrl, sql),
    });
    const allWorkers = await AllWorkers.of(service);
    const operator = await Operator.set({ OWNER_URL: server.ownerUrl });
    await operator.types('pg_dump --format=custom --data-only --table=hotels --file=rows.dump "$OWNER_URL"');
    await allWorkers.until('/hotels/h7', named('dumped'));
    await sql`delete from hotels`;
    await allWorkers.until('/hotels/h7', status(404));
    await operator.types('pg_restore --data-only --dbname="$OWNER_URL" rows.dump');
    await allWorkers.until('/hotels/h7', named('dumped'));
    await allWorkers.until('/hotels/h1499', named('dumped'));
  });
});
