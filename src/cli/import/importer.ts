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
import { stage } from './staging.ts';
import { type Summary, summarize } from './summary.ts';
import { takeTurn } from './turn.ts';

/** Maximum number of faults that a dry run prints. */
const FIRST_FAULTS = 20;
/** Source size from which steps that take long are announced. */
const REPORT_FROM_BYTES = 1024 * 1024;
/** Maximum part of a last line that is shown if the file may end midway. */
const SHOWN_BYTES = 200;
/** Last line of a complete source, with the number of its hotels. */
const CLOSING_LINE = /^\s*#\s*(\d{1,15}) hotels?\s*$/i;

export interface ImportOptions {
  dryRun?: boolean;
  deleteMissing?: boolean;
  /** returns how many of the hotels of the table may be deleted */
  deleteAtMost?: (hotels: number) => number;
  /** rows of CSV over several lines do not prevent deletions */
  multiline?: boolean;
  /** number of lines with hotels; another one prevents the import */
  expectLines?: number;
  /** false: fails instead of waiting for another import */
  wait: boolean;
  json?: boolean;
}

/**
 * Import in one transaction. The lines are read into a staging table, checked there, and merged into the hotels. The merge
 * compares sets, so a wrong line needs no savepoint, and unchanged hotels are not written.
 */
export class Importer {
  readonly #source: Source;
  readonly #format: Format;
  readonly #options: ImportOptions;
  #progress: Progress;

  constructor(source: Source, format: Format, options: ImportOptions) {
    this.#source = source;
    this.#format = format;
    this.#options = options;
    this.#progress = new Progress(`reading ${source.name}`, source.sizeBytes, bytes);
  }

  /** Runs the import on `sql` when it is its turn. */
  async run(sql: Sql): Promise<Summary> {
    try {
      const summary = await sql.begin((transaction) => this.#run(transaction));
      if (!this.#options.dryRun) await analyzeTables(sql);
      return summary;
    } finally {
      this.#progress.stop();
    }
  }

  async #run(transaction: TransactionSql): Promise<Summary> {
    const { dryRun = false, deleteMissing: wanted = false } = this.#options;
    await transaction`set local statement_timeout = 0`;
    // a transaction whose client has disconnected must not keep its locks
    await transaction`set local client_connection_check_interval = '1s'`;
    await transaction`set local work_mem = '64MB'`;
    await takeTurn(transaction, (described) => {
      const other = `another import is running (${described})`;
      if (!this.#options.wait) throw new Failure(`${other}; nothing was imported. Try again after it.`);
      this.#progress.log(`waiting: ${other}`);
    });
    await stage(transaction, this.#source, this.#format, () => this.#progress.at(this.#source.positionBytes));
    const { announced, cut } = await this.#readEnd(transaction);
    const deleteMissing = wanted && cut === undefined;
    if (!dryRun) {
      await transaction`set local lock_timeout = '30s'`;
      // other writers of hotels wait until the transaction ends; readers do not
      await transaction`lock table hotels in share row exclusive mode`;
    }
    if (this.#source.sizeBytes >= REPORT_FROM_BYTES)
      this.#progress.log('comparing the lines with the hotels');
    await rejectCollisions(transaction, deleteMissing);
    const counts = await compare(transaction, deleteMissing);
    const summary = await summarize(transaction, counts);
    if (summary.rejected > 0) await this.#reject(transaction, summary);
    if (cut) this.#progress.log(cut);
    const why = await this.#whyRefused(transaction, { announced, ...summary }, deleteMissing);
    if (why && !dryRun) throw new Failure([`${why}; nothing was imported.`, ...summary.notes].join('\n'));
    if (why) summary.notes.push(`The import would fail: ${why}.`);
    if (wanted && cut) summary.notes.push('No hotel is deleted: the file may end midway.');
    summary.failed = summary.rejected > 0 || why !== undefined || wanted !== deleteMissing;
    if (summary.rejected === 0) await removeRejected(this.#source);
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
    return summary;
  }

  /**
   * Returns N of a last line `# N hotels`, which is no record, or a warning about the line in which the file may end midway.
   * An expected number of lines disproves that.
   */
  async #readEnd(transaction: TransactionSql): Promise<{ announced?: number; cut?: string }> {
    const [last] = await transaction`
      select line, starts_at, ends_at, is_cut from staged
      where (fault is not null or is_cut) and line = (select max(line) from staged)`;
    if (!last) return {};
    const start = Math.max(last.starts_at, last.ends_at - SHOWN_BYTES);
    const text = String(await this.#source.slice(start, last.ends_at));
    const [, announced] = CLOSING_LINE.exec(text) ?? [];
    if (announced !== undefined) {
      await transaction`delete from staged where line = ${last.line}`;
      return { announced: Number(announced) };
    }
    if (!last.is_cut || this.#options.expectLines !== undefined) return {};
    return {
      cut: `line ${last.line}: the file may end midway, no newline follows ${JSON.stringify(text)}`,
    };
  }

  /** Returns why the source may not be the one that was meant, so that nothing may be imported; undefined if it may. */
  async #whyRefused(
    transaction: TransactionSql,
    { announced, lines, multiline, deleted }: Summary & { announced?: number },
    deleteMissing: boolean,
  ): Promise<string | undefined> {
    const { name } = this.#source;
    const { expectLines = lines, deleteAtMost = parseAmount('20%') } = this.#options;
    if (lines === 0) return `${name}: no hotel in the input`;
    if (lines !== expectLines)
      return `${name} has ${lines} lines with hotels, --expect-lines says ${expectLines}`;
    if (lines !== (announced ?? lines))
      return `${name} has ${lines} lines with hotels, its last line says ${announced}`;
    if (!deleteMissing) return undefined;
    const [found] = await transaction<[{ hotels: number; withoutId: number }]>`
      select (select count(*) from hotels)::float8 as hotels, count(*)::float8 as "withoutId"
      from staged where id is null and fault is not null`;
    const { hotels, withoutId } = found;
    if (withoutId > 0)
      return `${withoutId} rejected line(s) have no readable id, so --delete-missing might delete their hotels: correct them in the whole file`;
    if (multiline > 0 && this.#format.name === 'csv' && !this.#options.multiline)
      return `${multiline} row(s) span several lines, as if a stray quote had swallowed hotels, which --delete-missing would delete: if they are right, add --multiline`;
    const allowed = deleteAtMost(hotels);
    if (deleted <= allowed) return undefined;
    return `${deleted} of ${hotels} hotels would be deleted, at most ${allowed} may be (--delete-at-most)`;
  }

  /** Prints the faults of rejected lines, of a dry run the first, and writes the lines to their file. */
  async #reject(transaction: TransactionSql, { rejected, notes }: Summary): Promise<void> {
    const printed = this.#options.dryRun ? Math.min(FIRST_FAULTS, rejected) : rejected;
    const faults = transaction.unsafe(
      `select line, fault from staged where fault is not null order by line limit ${printed}`,
    );
    for await (const rows of faults.cursor(1_000))
      for (const { line, fault } of rows) this.#progress.log(`line ${line}: ${fault}`);
    if (rejected > printed)
      this.#progress.log(`${count('more line')(rejected - printed)} would be rejected.`);
    const path = rejectedPath(this.#source, this.#format.name);
    await writeRejected(transaction, this.#source, path, this.#format.header);
    notes.push(`The rejected lines are in ${path}: correct them and import that file.`);
  }
}
