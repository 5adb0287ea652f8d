import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { analyzeTables } from '../../postgres/analyze.ts';
import { parseAmount } from '../common/arguments.ts';
import { bytes, count, Progress } from '../common/progress.ts';
import type { Source } from '../common/source.ts';
import { rejectCollisions } from './collisions.ts';
import { compare, write } from './merge.ts';
import type { Format } from './records.ts';
import { rejectedPath, removeRejected, writeRejected } from './rejects.ts';
import { fillStaging, openStaging, type Staging } from './staging.ts';
import { type Summary, summarize } from './summary.ts';
import { type InTransaction, inTurn } from './turn.ts';

/** Maximum number of faults that a dry run prints. */
const FIRST_FAULTS = 20;
/** Source size from which steps that take long are announced. */
const REPORT_FROM_BYTES = 1024 * 1024;
/** Maximum part of a last line that is shown if the file may end midway. */
const SHOWN_BYTES = 200;

export interface ImportOptions {
  dryRun?: boolean;
  deleteMissing?: boolean;
  /** returns how many of the hotels of the table may be deleted */
  deleteAtMost?: (hotels: number) => number;
  json?: boolean;
}

/**
 * Import in two steps. First the lines are read, batch by batch, into a staging table, from which an interrupted import
 * resumes. Then one transaction checks them and merges them into the hotels. The merge compares sets, so a wrong line
 * needs no savepoint, and unchanged hotels are not written.
 */
export class Importer {
  readonly #source: Source;
  readonly #format: Format;
  readonly #options: ImportOptions;
  #staging: Staging | undefined;
  #progress: Progress;

  constructor(source: Source, format: Format, options: ImportOptions) {
    this.#source = source;
    this.#format = format;
    this.#options = options;
    this.#progress = new Progress(`reading ${source.name}`, source.sizeBytes, bytes);
  }

  /** Runs the import on `sql` when it is its turn. */
  run(sql: Sql): Promise<Summary> {
    const onWait = (other: string) => this.#progress.log(`waiting: another import is running (${other})`);
    return inTurn(sql, onWait, async (inTransaction) => {
      const staging = await openStaging(sql, this.#source, this.#format);
      this.#staging = staging;
      const progress = this.#progress;
      if (staging.mark) progress.log(`resuming after line ${staging.mark.number} of an interrupted import`);
      try {
        const onRead = () => progress.at(this.#source.positionBytes);
        await fillStaging(staging, inTransaction, this.#source, this.#format, onRead);
        progress.stop();
        const summary = await this.#merge(inTransaction, staging.table);
        if (!this.#options.dryRun) await analyzeTables(sql);
        return summary;
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        // the source must be replaced, so its lines are useless
        await inTransaction(async (transaction) => {
          await transaction.unsafe(`drop table ${staging.table}`);
        });
        staging.keepsLines = false;
        throw error;
      } finally {
        this.#progress.stop();
      }
    });
  }

  /** Reports the remains of an import that failed or was interrupted, and throws its error. */
  fail(error: unknown): never {
    this.#progress.stop();
    if (this.#staging?.keepsLines && this.#source.sizeBytes >= REPORT_FROM_BYTES)
      process.stderr.write('The lines read so far are kept: run the same command again to resume.\n');
    throw error;
  }

  async #merge(inTransaction: InTransaction, table: string): Promise<Summary> {
    const { dryRun = false, deleteMissing: wanted = false } = this.#options;
    let summary: Summary | undefined;
    await inTransaction(async (transaction) => {
      const cut = await this.#readCut(transaction, table);
      const staged = { table, deleteMissing: wanted && cut === undefined };
      await transaction`set local work_mem = '64MB'`;
      if (!dryRun) {
        await transaction`set local lock_timeout = '30s'`;
        // other writers of hotels wait until the transaction ends; readers do not
        await transaction`lock table hotels in share row exclusive mode`;
      }
      if (this.#source.sizeBytes >= REPORT_FROM_BYTES)
        this.#progress.log('comparing the lines with the hotels');
      await transaction.unsafe(`analyze ${table}`);
      await rejectCollisions(transaction, staged);
      const counts = await compare(transaction, staged);
      summary = await summarize(transaction, table, counts);
      if (summary.rejected > 0) await this.#reject(transaction, table, summary);
      if (cut) this.#progress.log(cut);
      const why = await this.#whyRefused(transaction, table, summary, staged.deleteMissing);
      if (why && !dryRun) throw new Failure([`${why}; nothing was imported.`, ...summary.notes].join('\n'));
      if (why) summary.notes.push(`The import would fail: ${why}.`);
      if (wanted && cut) summary.notes.push('No hotel is deleted: the file may end midway.');
      summary.failed = summary.rejected > 0 || why !== undefined || wanted !== staged.deleteMissing;
      if (summary.rejected === 0) await removeRejected(this.#source);
      if (!(await this.#source.isUnchanged()))
        throw new Failure(
          `${this.#source.name} was written or replaced while it was read; nothing was imported.`,
        );
      if (!dryRun) {
        const progress = new Progress('merging', counts.inserted + counts.updated, count('hotel'));
        this.#progress = progress;
        await write(transaction, staged, counts, (hotels) => progress.at(hotels));
      }
      await transaction.unsafe(`drop table ${table}`);
    });
    return summary!;
  }

  /** Returns a warning about the line in which the file may end midway; undefined if it ends with a newline. */
  async #readCut(transaction: TransactionSql, table: string): Promise<string | undefined> {
    const [last] = await transaction.unsafe(`
      select line, starts_at, ends_at from ${table} where is_cut and line = (select max(line) from ${table})`);
    if (!last) return undefined;
    const text = await this.#source.slice(Math.max(last.starts_at, last.ends_at - SHOWN_BYTES), last.ends_at);
    return `line ${last.line}: the file may end midway, no newline follows ${JSON.stringify(String(text))}`;
  }

  /** Returns why the source may not be the one that was meant, so that nothing may be imported; undefined if it may. */
  async #whyRefused(
    transaction: TransactionSql,
    table: string,
    { lines, multiline, deleted }: Summary,
    deleteMissing: boolean,
  ): Promise<string | undefined> {
    if (lines === 0) return `${this.#source.name}: no hotel in the input`;
    if (!deleteMissing) return undefined;
    const [found] = await transaction.unsafe<[{ hotels: number; withoutId: number }]>(`
      select (select count(*) from hotels)::float8 as hotels, count(*)::float8 as "withoutId"
      from ${table} where id is null`);
    const { hotels, withoutId } = found;
    if (withoutId > 0)
      return `${withoutId} rejected line(s) have no readable id, so --delete-missing might delete their hotels: correct them in the whole file`;
    const { deleteAtMost } = this.#options;
    if (multiline > 0 && deleted > 0 && !deleteAtMost)
      return `${multiline} row(s) span several lines, as if a stray quote had swallowed hotels, and ${deleted} hotels would be deleted: if that is right, add --delete-at-most ${deleted}`;
    const allowed = (deleteAtMost ?? parseAmount('20%'))(hotels);
    if (deleted <= allowed) return undefined;
    return `${deleted} of ${hotels} hotels would be deleted, at most ${allowed} may be (--delete-at-most)`;
  }

  /** Prints the faults of rejected lines, of a dry run the first, and writes the lines to their file. */
  async #reject(transaction: TransactionSql, table: string, { rejected, notes }: Summary): Promise<void> {
    const printed = this.#options.dryRun ? Math.min(FIRST_FAULTS, rejected) : rejected;
    const faults = transaction.unsafe(
      `select line, fault from ${table} where fault is not null order by line limit ${printed}`,
    );
    for await (const rows of faults.cursor(1_000))
      for (const { line, fault } of rows) this.#progress.log(`line ${line}: ${fault}`);
    if (rejected > printed)
      this.#progress.log(`${count('more line')(rejected - printed)} would be rejected.`);
    const path = rejectedPath(this.#source, this.#format.name);
    await writeRejected(transaction, table, this.#source, path, this.#format.header);
    notes.push(`The rejected lines are in ${path}: correct them and import that file.`);
  }
}
