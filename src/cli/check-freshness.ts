import { Failure } from '../lib/failure.ts';
import { openDatabase } from '../postgres/connect.ts';
import { FreshnessChecker } from './freshness/checker.ts';
import { ServiceClient } from './freshness/service-client.ts';
import { directDatabaseUrl, print } from './session.ts';

/** Maximum number of faults that are printed. */
const SHOWN = 10;

/** Runs `check-freshness`. Throws a `Failure` if an answer was older than promised, or if none could be compared. */
export async function checkFreshness(options: {
  url: string;
  /** duration in seconds */
  for: number;
  connections: number;
  promiseMs: number;
  json?: boolean;
}): Promise<void> {
  const databaseUrl = directDatabaseUrl();
  const key = process.env.HOTEL_API_KEY;
  if (!key) throw new Failure('HOTEL_API_KEY must hold a valid key of the deployment');
  if (!/^https?:$/.test(URL.parse(options.url)?.protocol ?? ''))
    throw new Failure('--url must be an http or https address');
  const sql = openDatabase(databaseUrl, 4, { kind: 'serve', statementTimeoutMs: 10_000, pooled: false });
  const listener = openDatabase(databaseUrl, 1, { kind: 'listen' });
  const clients = Array.from({ length: options.connections }, () => new ServiceClient(options.url, key));
  try {
    const checker = new FreshnessChecker(sql, listener, clients, () => options.promiseMs);
    const { answers, rejected, changes, lagsMs, stale } = await checker.run(
      AbortSignal.timeout(options.for * 1_000),
    );
    const sorted = lagsMs.toSorted((a, b) => a - b);
    const at = (share: number) => {
      const lagMs = sorted[Math.floor(share * (sorted.length - 1))];
      return lagMs === undefined ? null : Math.round(lagMs * 10) / 10;
    };
    const lag = { median: at(0.5), p99: at(0.99), max: at(1) };
    const measured =
      changes === 0
        ? 'no change reached every connection meanwhile, so there is no lag to report'
        : `lag of ${changes} changes: median ${lag.median} ms, 99% ${lag.p99} ms, longest ${lag.max} ms`;
    print(
      options.json,
      { answers, changes, lag_ms: lag, stale },
      `${answers} answers compared; ${measured}.`,
    );
    if (stale.length > 0) {
      throw new Failure([`${stale.length} times older than promised:`, ...stale.slice(0, SHOWN)].join('\n'));
    }
    // a check without comparisons proves nothing
    if (answers === 0) {
      throw new Failure(
        rejected > 0
          ? `nothing was compared: all ${rejected} requests were rejected (503)`
          : 'nothing was compared: there are no hotels, or --for is too short',
      );
    }
  } finally {
    for (const client of clients) client.close();
    await Promise.all([sql.end({ timeout: 2 }), listener.end({ timeout: 2 })]);
  }
}
