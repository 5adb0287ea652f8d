import { Failure } from '../lib/failure.ts';
import { openDatabase } from '../postgres/connect.ts';
import { ServiceClient } from './freshness/asker.ts';
import { FreshnessChecker } from './freshness/checker.ts';
import { directDatabaseUrl, print } from './session.ts';

/** Faults that are printed one by one. */
const SHOWN = 10;

/** `check-freshness`. Throws a `Failure` when an answer was older than promised, or when there was none to compare. */
export async function checkFreshness(options: {
  url: string;
  /** seconds */
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
  const ear = openDatabase(databaseUrl, 1, { kind: 'listen' });
  const askers = Array.from({ length: options.connections }, () => new ServiceClient(options.url, key));
  try {
    const checker = new FreshnessChecker(sql, ear, askers, () => options.promiseMs);
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
        ? 'no change was made meanwhile that every connection showed, so no lag is told'
        : `lag of ${changes} changes: median ${lag.median} ms, 99% ${lag.p99} ms, longest ${lag.max} ms`;
    print(
      options.json,
      { answers, changes, lag_ms: lag, stale },
      `${answers} answers compared; ${measured}.`,
    );
    if (stale.length > 0) {
      throw new Failure([`${stale.length} times older than promised:`, ...stale.slice(0, SHOWN)].join('\n'));
    }
    // a check that compared nothing has found nothing in order
    if (answers === 0) {
      throw new Failure(
        rejected > 0
          ? `nothing was compared: all ${rejected} requests were refused (503)`
          : 'nothing was compared: there is no hotel to ask for, or --for is too short',
      );
    }
  } finally {
    for (const asker of askers) asker.close();
    await Promise.all([sql.end({ timeout: 2 }), ear.end({ timeout: 2 })]);
  }
}
