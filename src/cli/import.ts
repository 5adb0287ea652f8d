import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../lib/failure.ts';
import { analyzeTables } from '../postgres/migrate.ts';
import { parseAmount } from './common/arguments.ts';
import { copyIn, copyRow } from './common/copy.ts';
import type { CliCommand } from './common/help.ts';
import { bytes, count, Progress } from './common/progress.ts';
import { onDatabase } from './common/session.ts';
import { Source } from './common/source.ts';
import { rejectCollisions } from './import/collisions.ts';
import type { Header } from './import/csv.ts';
import { IMPORTED_COLUMNS } from './import/hotel.ts';
import { compare, write } from './import/merge.ts';
import { detectHeader, readRecords } from './import/records.ts';
import { replaceRejected } from './import/rejects.ts';

interface Options {
  dryRun?: boolean;
  deleteMissing?: boolean;
  /** returns how many of the hotels of the table may be deleted */
  deleteAtMost?: (hotels: number) => number;
}

export function addCommand(program: CliCommand): void {
  program
    .command('import')
    .description('insert and update hotels from NDJSON or CSV, gzipped or not')
    .argument('<file>', 'the file, or - for standard input; its content determines the format')
    .option('--dry-run', 'print what would change and all faults, and change nothing')
    .option('--delete-missing', 'delete the hotels that the file does not name')
    .option('--delete-at-most <n>', 'hotels that may be deleted: 500, 30% (default: 20%)', parseAmount)
    .json('{"inserted","updated","unchanged","deleted","rejected","converted_uris","notes"}')
    .addHelpText(
      'after',
      `
NDJSON has one hotel per line with the field names of the API. CSV begins with a header row of those names.
Commas, semicolons or tabs separate its cells, "images" is a cell of JSON, and an empty cell, NULL or \\N is null.

A line replaces the whole hotel: an absent field becomes null. Only id and name are required; "certified" is
ignored. Of several lines with the same id, the last valid one counts. All valid lines are imported in one transaction.
An invalid line is reported, written to FILE.rejected.ndjson or .csv (stdin.rejected.ndjson for -), and makes
the exit code 1. Other writers of the table wait while the changes are merged. Nothing is imported from an input without
a hotel, from one that was written meanwhile, or if more than a fifth of the hotels would be deleted. Other kinds of
files make the exit code 2.
`,
    )
    .examples(
      'hotel-api import hotels.ndjson --dry-run',
      'hotel-api import hotels.csv.gz --delete-missing --delete-at-most 30%',
      'curl -sS https://example.com/hotels.ndjson.gz | hotel-api import - --json',
    )
    .action(onDatabase(run));
}

/**
 * Runs `import FILE` when it is its turn, in one transaction. The lines are read into a staging table, checked there, and merged into
 * the hotels. The merge compares sets, so a wrong line needs no savepoint, and unchanged hotels are not written. The exit code is
 * 1 if a line was rejected, or a dry run finds that the import would fail.
 */
async function run(sql: Sql, path: string, options: Options) {
  const { dryRun = false, deleteMissing = false } = options;
  if (options.deleteAtMost && !deleteMissing)
    throw new Failure('--delete-at-most needs --delete-missing.', 2);
  const source = await Source.open(path);
  let progress = new Progress(`reading ${source.name}`, source.sizeBytes, bytes);
  try {
    const header = await detectHeader(source);
    const summary = await sql.begin(async (transaction) => {
      await transaction`set local statement_timeout = 0`;
      // a transaction whose client has disconnected must not keep its locks
      await transaction`set local client_connection_check_interval = '1s'`;
      await transaction`set local work_mem = '64MB'`;
      await takeTurn(transaction, progress);
      await stage(transaction, source, header, progress);
      if (!dryRun) {
        await transaction`set local lock_timeout = '30s'`;
        // other writers of hotels wait until the transaction ends; readers do not
        await transaction`lock table hotels in share row exclusive mode`;
      }
      await rejectCollisions(transaction, deleteMissing);
      const counts = await compare(transaction, deleteMissing);
      const staged = await countStaged(transaction);
      const { rejected, converted_uris } = staged;
      const notes: string[] = [];
      if (converted_uris > 0)
        notes.push(`${count('IRI')(converted_uris)} converted to URIs (percent-encoding, punycode).`);
      const written = await replaceRejected(transaction, source, header, (fault) => progress.log(fault));
      if (written) notes.push(`The rejected lines are in ${written}: correct them and import that file.`);
      const fault = faultOf(staged, counts.deleted, options);
      if (fault && !dryRun)
        throw new Failure([`${source.name}: ${fault}; nothing was imported.`, ...notes].join('\n'));
      if (fault) notes.push(`The import would fail: ${fault}.`);
      if (!(await source.isUnchanged()))
        throw new Failure(`${source.name} was written or replaced while it was read; nothing was imported.`);
      if (!dryRun) {
        progress.stop();
        progress = new Progress('merging', counts.inserted + counts.updated, count('hotel'));
        await write(transaction, deleteMissing, counts, (hotels) => progress.at(hotels));
      }
      if (rejected > 0 || fault) process.exitCode = 1;
      return { ...counts, rejected, converted_uris, notes };
    });
    if (!dryRun) await analyzeTables(sql);
    const { inserted, updated, unchanged, deleted, rejected, notes } = summary;
    const counts = `${inserted} inserted, ${updated} updated, ${unchanged} unchanged, ${deleted} deleted, ${rejected} rejected`;
    const beginning = dryRun ? 'Dry run, nothing was changed. An import would be: ' : '';
    return { printed: summary, shown: null, note: [beginning + counts, ...notes].join('\n') };
  } finally {
    progress.stop();
    await source.close();
  }
}

/**
 * Waits until no other import runs on this database, so that an older one that ends last overwrites no newer hotels. The
 * turn is a lock that ends with the transaction, so one connection suffices, also of a pooler.
 */
async function takeTurn(transaction: TransactionSql, progress: Progress): Promise<void> {
  const [other] = await transaction<{ described: string }[]>`
    select format('another import is running (%s from %s since %s, backend %s)', usename,
      coalesce(host(client_addr), 'this host'), xact_start, pid) as described
    from pg_stat_activity join pg_locks using (pid)
    where locktype = 'relation' and relation = 'hotel_api_importer'::regclass and granted
      and datname = current_database() and pid <> pg_backend_pid() limit 1`;
  if (other) progress.log(`waiting: ${other.described}`);
  await transaction`lock table hotel_api_importer in exclusive mode`;
}

/** Reads the source into the temporary table `staged`: its checked records, of which a valid one has a null `fault`. */
async function stage(
  transaction: TransactionSql,
  source: Source,
  header: Header | undefined,
  progress: Progress,
): Promise<void> {
  await transaction.unsafe(`
    create temporary table staged on commit drop as
    select 0::bigint as line, null::text as fault, 0 as converted_uris, ${IMPORTED_COLUMNS.join(', ')}
    from hotels with no data`);
  async function* rows(): AsyncGenerator<string> {
    for await (const records of readRecords(source, header)) {
      let text = '';
      for (const { line, hotel, fault, convertedUris } of records)
        text += copyRow([line, fault, convertedUris, ...IMPORTED_COLUMNS.map((column) => hotel[column])]);
      progress.at(source.positionBytes);
      if (text !== '') yield text;
    }
  }
  await copyIn(transaction, 'copy staged from stdin', rows);
  await transaction`create unique index on staged (line)`;
  await transaction`analyze staged`;
}

/** Counts of the staged lines, and the number of hotels in the table. */
interface Staged {
  lines: number;
  rejected: number;
  withoutId: number;
  converted_uris: number;
  hotels: number;
}

async function countStaged(transaction: TransactionSql): Promise<Staged> {
  const [counts] = await transaction<[Staged]>`
    select count(*)::float8 as lines, count(fault)::float8 as rejected, (count(*) - count(id))::float8 as "withoutId",
      coalesce(sum(converted_uris) filter (where fault is null), 0)::float8 as converted_uris,
      (select count(*) from hotels)::float8 as hotels
    from staged`;
  return counts;
}

/** Returns why the source may not be the one that was meant, so that nothing may be imported; undefined if it may. */
function faultOf(
  { lines, withoutId, hotels }: Staged,
  deleted: number,
  { deleteMissing, deleteAtMost = parseAmount('20%') }: Options,
): string | undefined {
  if (lines === 0) return 'no hotel in the input';
  if (deleteMissing && withoutId > 0)
    return `${withoutId} rejected line(s) have no readable id, so --delete-missing might delete their hotels: correct them in the whole file`;
  const allowed = deleteAtMost(hotels);
  if (deleted <= allowed) return undefined;
  return `${deleted} of ${hotels} hotels would be deleted, at most ${allowed} may be (--delete-at-most)`;
}
