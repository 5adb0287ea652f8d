import { Option } from 'commander';
import { Failure } from '../lib/failure.ts';
import { openDatabase } from '../postgres/connect.ts';
import { parseDuration, parseWhole } from './common/arguments.ts';
import type { CliCommand } from './common/help.ts';
import { databaseUrl, print } from './common/session.ts';
import { ChangesFollower } from './freshness/changes-follower.ts';
import { FreshnessChecker } from './freshness/checker.ts';
import { ServiceClient } from './freshness/service-client.ts';

/** Maximum number of faults that are printed. */
const SHOWN = 10;

export function addCommand(program: CliCommand): void {
  program
    .command('check-freshness')
    .description(
      'compare a running deployment, GET /changes included, with PostgreSQL while both change; read-only',
    )
    .requiredOption('--url <url>', 'base address of the API, including BASE_PATH')
    .addOption(
      new Option('--for <duration>', 'duration of the check: 30s, 10m, 1h')
        .argParser(parseDuration)
        .default(30, '30s'),
    )
    .option(
      '--connections <n>',
      'connections to the API: several per worker, so that each worker is checked',
      parseWhole(1, 1_000),
      16,
    )
    .option('--promise-ms <ms>', 'maximum age of a response', parseWhole(1, 3_600_000), 1_000)
    .json('{"answers","changes","lag_ms","mirror_changes","mirror_lag_ms","stale"}')
    .addHelpText(
      'after',
      `
HOTEL_API_KEY is the API key. Lag is the time from a statement until a connection returns its change; one more client follows GET /changes. The exit code is 1 if a response was older than
promised, or nothing could be compared.`,
    )
    .examples(
      'HOTEL_API_KEY=hk_… hotel-api check-freshness --url http://localhost:8080',
      'HOTEL_API_KEY=hk_… hotel-api check-freshness --url https://api.example/v1 --for 10m --json',
    )
    .action(checkFreshness);
}

/** Runs `check-freshness`. Throws a `Failure` if an answer was older than promised, or if none could be compared. */
async function checkFreshness(options: {
  url: string;
  /** duration in seconds */
  for: number;
  connections: number;
  promiseMs: number;
  json?: boolean;
}): Promise<void> {
  const address = databaseUrl();
  const key = process.env.HOTEL_API_KEY;
  if (!key) throw new Failure('HOTEL_API_KEY must hold a valid key of the deployment');
  if (!/^https?:$/.test(URL.parse(options.url)?.protocol ?? ''))
    throw new Failure('--url must be an http or https address');
  const sql = openDatabase(address, 4, { kind: 'serve', statementTimeoutMs: 10_000, pooled: false });
  const mirror = new ServiceClient(options.url, key);
  const clients = Array.from({ length: options.connections }, () => new ServiceClient(options.url, key));
  try {
    const follower = new ChangesFollower(sql, mirror);
    const checker = new FreshnessChecker(sql, clients, () => options.promiseMs, follower);
    const signal = AbortSignal.timeout(options.for * 1_000);
    const [report] = await Promise.all([checker.run(signal), follower.run(key, signal)]);
    const { answers, rejected, changes, stale } = report;
    const lag = lagOf(report.lagsMs);
    const mirrorLag = lagOf(report.mirrorLagsMs);
    const measured =
      changes === 0
        ? 'no change reached every connection meanwhile, so there is no lag to report'
        : `lag of ${changes} changes: median ${lag.median} ms, 99% ${lag.p99} ms, longest ${lag.max} ms; in GET /changes: longest ${mirrorLag.max} ms`;
    const lags = { lag_ms: lag, mirror_changes: report.mirrorLagsMs.length, mirror_lag_ms: mirrorLag };
    print(options.json, { answers, changes, ...lags, stale }, `${answers} answers compared; ${measured}.`);
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
    for (const client of [mirror, ...clients]) client.close();
    await sql.end({ timeout: 2 });
  }
}

/** Returns the median, the 99th percentile and the maximum, rounded to a tenth of a ms; null without values. */
function lagOf(lagsMs: number[]): Record<'median' | 'p99' | 'max', number | null> {
  const sorted = lagsMs.toSorted((a, b) => a - b);
  const at = (share: number) => {
    const lagMs = sorted[Math.floor(share * (sorted.length - 1))];
    return lagMs === undefined ? null : Math.round(lagMs * 10) / 10;
  };
  return { median: at(0.5), p99: at(0.99), max: at(1) };
}
