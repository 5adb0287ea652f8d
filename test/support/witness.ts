import { Asker } from '../../src/cli/freshness/asker.ts';
import { Checker, type Report } from '../../src/cli/freshness/checker.ts';
import { openDatabase } from '../../src/database.ts';
import { closeAtEnd } from './left-behind.ts';
import type { Service } from './service.ts';

const CONNECTIONS = 8;
const PROMISE_MS = 1_000;

/**
 * Has the checker of `hotel-api check-freshness` look at services of one database while the tests of the file do
 * their own. To be stopped before the services are broken on purpose; what it found is then returned.
 */
export function watchFreshness(...services: Service[]): () => Promise<Report> {
  const { database, fullKey } = services[0]!;
  const sql = openDatabase(database.url, 2, { kind: 'serve', statementTimeoutMs: 10_000 });
  const ear = openDatabase(database.url, 1, { kind: 'listen' });
  const askers = services.flatMap(({ url }) =>
    Array.from({ length: CONNECTIONS }, () => new Asker(url, fullKey)),
  );
  const ending = new AbortController();
  const running = new Checker(sql, ear, askers, PROMISE_MS).run(ending.signal);
  running.catch(() => {});
  let stopped: Promise<Report> | undefined;
  const stop = () => {
    stopped ??= (async () => {
      ending.abort();
      try {
        return await running;
      } finally {
        for (const asker of askers) asker.close();
        await Promise.all([sql.end(), ear.end()]);
      }
    })();
    return stopped;
  };
  closeAtEnd('freshness checker', async () => void (await stop().catch(() => {})));
  return stop;
}
