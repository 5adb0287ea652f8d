import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { analyzeTables } from '../../postgres/analyze.ts';
import { parseAmount } from '../common/arguments.ts';
import { copyIn, copyRow } from '../common/copy.ts';
import { bytes, count, Progress } from '../common/progress.ts';
import type { Source } from '../common/source.ts';
import { rejectCollisions } from './collisions.ts';
import type { Header } from './csv.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { type Counts, compare, write } from './merge.ts';
import { readRecords } from './records.ts';
import { replaceRejected } from './rejects.ts';

export interface ImportOptions {
  dryRun?: boolean;
  deleteMissing?: boolean;
  /** returns how many of the hotels of the table may be deleted */
  deleteAtMost?: (hotels: number) => number;
}

/** Result of an import, as `--json` prints it. */
export interface Summary extends Counts {
  /** lines with a fault */
  rejected: number;
  /** IRIs converted to URIs, and URLs with encoded blanks */
  converted_uris: number;
  /** sentences about what a person should know besides */
  notes: string[];
}

/**
 * Import in one transaction. The lines are read into a staging table, checked there, and merged into the hotels. The merge
 * compares sets, so a wrong line needs no savepoint, and unchanged hotels are not written.
 */
export class Importer {
  readonly #source: Source;
  readonly #header: Header | undefined;
  readonly #options: ImportOptions;
  readonly #read = { lines: 0, convertedUris: 0 };
  /** a row of CSV that no newline follows may be cut; a cut line of NDJSON is invalid */
  #mayBeCut = false;
  #progress: Progress;

  constructor(source: Source, header: Header | undefined, options: ImportOptions) {
    this.#source = source;
    this.#header = header;
    this.#options = options;
    this.#progress = new Progress(`reading ${source.name}`, source.sizeBytes, bytes);
  }

  /** Runs the import when it is its turn. `failed`: a line was rejected, or an import would have failed. */
  async run(sql: Sql): Promise<Summary & { failed: boolean }> {
    try {
      const summary = await sql.begin((transaction) => this.#run(transaction));
      if (!this.#options.dryRun) await analyzeTables(sql);
      return summary;
    } finally {
      this.#progress.stop();
    }
  }

  async #run(transaction: TransactionSql): Promise<Summary & { failed: boolean }> {
    const { dryRun = false, deleteMissing = false } = this.#options;
    await transaction`set local statement_timeout = 0`;
    // a transaction whose client has disconnected must not keep its locks
    await transaction`set local client_connection_check_interval = '1s'`;
    await transaction`set local work_mem = '64MB'`;
    await this.#takeTurn(transaction);
    await this.#stage(transaction);
    if (!dryRun) {
      await transaction`set local lock_timeout = '30s'`;
      // other writers of hotels wait until the transaction ends; readers do not
      await transaction`lock table hotels in share row exclusive mode`;
    }
    await rejectCollisions(transaction, deleteMissing);
    const counts = await compare(transaction, deleteMissing);
    const summary = await this.#summarize(transaction, counts);
    const report = (fault: string) => this.#progress.log(fault);
    const path = await replaceRejected(transaction, this.#source, this.#header, report);
    if (path) summary.notes.push(`The rejected lines are in ${path}: correct them and import that file.`);
    const fault = await this.#faultOf(transaction, summary.deleted);
    if (fault && !dryRun) throw new Failure([`${fault}; nothing was imported.`, ...summary.notes].join('\n'));
    if (fault) summary.notes.push(`The import would fail: ${fault}.`);
    if (!(await this.#source.isUnchanged()))
      throw new Failure(
        `${this.#source.name} was written or replaced while it was read; nothing was imported.`,
      );
    if (!dryRun) {
      this.#progress.stop();
      const progress = new Progress('merging', counts.inserted + counts.updated, count('hotel'));
      this.#progress = progress;
      await write(transaction, deleteMissing, counts, (hotels) => progress.at(hotels));
    }
    return { ...summary, failed: summary.rejected > 0 || fault !== undefined };
  }

  /**
   * Waits until no other import runs on this database, so that an older one that ends last overwrites no newer hotels. The
   * turn is a lock that ends with the transaction, so one connection suffices, also of a pooler.
   */
  async #takeTurn(transaction: TransactionSql): Promise<void> {
    const [other] = await transaction<{ described: string }[]>`
      select format('another import is running (%s from %s since %s, backend %s)', usename,
        coalesce(host(client_addr), 'this host'), xact_start, pid) as described
      from pg_stat_activity join pg_locks using (pid)
      where locktype = 'relation' and relation = 'hotel_api_importer'::regclass and granted
        and datname = current_database() and pid <> pg_backend_pid() limit 1`;
    if (other) this.#progress.log(`waiting: ${other.described}`);
    await transaction`lock table hotel_api_importer in exclusive mode`;
  }

  /** Reads the source into the temporary table `staged`: its checked records, of which a valid one has a null `fault`. */
  async #stage(transaction: TransactionSql): Promise<void> {
    await transaction.unsafe(`
      create temporary table staged on commit drop as
      select 0::bigint as line, null::text as fault, ${IMPORTED_COLUMNS.join(', ')} from hotels with no data`);
    await copyIn(transaction, 'copy staged from stdin', () => this.#rows());
    await transaction`create unique index on staged (line)`;
    await transaction`analyze staged`;
  }

  /** Yields the rows of `staged`, and counts. */
  async *#rows(): AsyncGenerator<string> {
    const read = this.#read;
    for await (const records of readRecords(this.#source, this.#header)) {
      let rows = '';
      for (const { at, hotel, fault, convertedUris } of records) {
        read.lines++;
        if (fault === undefined) read.convertedUris += convertedUris;
        if (at.isUnfinished && this.#header) this.#mayBeCut = true;
        rows += copyRow([at.number, fault, ...IMPORTED_COLUMNS.map((column) => hotel[column])]);
      }
      this.#progress.at(this.#source.positionBytes);
      if (rows !== '') yield rows;
    }
  }

  async #summarize(transaction: TransactionSql, counts: Counts): Promise<Summary> {
    const [row] = await transaction<[{ rejected: number }]>`
      select count(fault)::float8 as rejected from staged`;
    const { convertedUris } = this.#read;
    const notes: string[] = [];
    if (convertedUris > 0)
      notes.push(`${count('IRI')(convertedUris)} converted to URIs (percent-encoding, punycode).`);
    if (this.#mayBeCut) notes.push('No newline follows the last row: the file may end midway.');
    return { ...counts, rejected: row.rejected, converted_uris: convertedUris, notes };
  }

  /** Returns why the source may not be the one that was meant, so that nothing may be imported; undefined if it may. */
  async #faultOf(transaction: TransactionSql, deleted: number): Promise<string | undefined> {
    const { deleteMissing, deleteAtMost = parseAmount('20%') } = this.#options;
    if (this.#read.lines === 0) return `${this.#source.name}: no hotel in the input`;
    if (!deleteMissing) return undefined;
    if (this.#mayBeCut)
      return 'no newline follows the last row, so --delete-missing might delete the hotels of rows that are cut off: if the file is whole, add a newline';
    const [found] = await transaction<[{ hotels: number; withoutId: number }]>`
      select (select count(*) from hotels)::float8 as hotels, count(*)::float8 as "withoutId"
      from staged where id is null and fault is not null`;
    const { hotels, withoutId } = found;
    if (withoutId > 0)
      return `${withoutId} rejected line(s) have no readable id, so --delete-missing might delete their hotels: correct them in the whole file`;
    const allowed = deleteAtMost(hotels);
    if (deleted <= allowed) return undefined;
    return `${deleted} of ${hotels} hotels would be deleted, at most ${allowed} may be (--delete-at-most)`;
  }
}
