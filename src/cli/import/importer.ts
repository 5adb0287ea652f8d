import type { Sql } from 'postgres';
import { analyzeTables } from '../../postgres/analyze.ts';
import { bytes, count, Progress } from '../common/progress.ts';
import { rejectedPath, removeRejected, writeRejected } from '../common/rejects.ts';
import type { Source } from '../common/source.ts';
import { rejectCollisions } from './collisions.ts';
import type { Format } from './format.ts';
import { type Expectations, Refusal, whyRefused } from './guards.ts';
import { compare, write } from './merge.ts';
import type { Closing } from './records.ts';
import { Staging } from './staging.ts';
import { type Summary, summarize } from './summary.ts';
import { inTurn } from './turn.ts';

export interface ImportOptions extends Expectations {
  dryRun?: boolean;
  /** false: fails instead of waiting for another import */
  wait: boolean;
  json?: boolean;
}

/** Maximum number of faults that a dry run prints. */
const FIRST_FAULTS = 20;
/** Source size from which an interrupted import reports that its lines are kept. */
const REPORT_FROM_BYTES = 1024 * 1024;
/** Maximum part of a last line that is shown if the file may end midway. */
const SHOWN_BYTES = 200;
/** Number of lines from which the comparison is announced. */
const REPORT_FROM_LINES = 50_000;

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
  #progress: Progress | undefined;
  #reported = 0;

  constructor(source: Source, format: Format, options: ImportOptions) {
    this.#source = source;
    this.#format = format;
    this.#options = options;
  }

  /** Runs the import on `sql`, which needs two connections. */
  run(sql: Sql): Promise<Summary> {
    return inTurn(sql, this.#options.wait, () => this.#run(sql));
  }

  async #run(sql: Sql): Promise<Summary> {
    const { dryRun } = this.#options;
    const staging = await Staging.open(sql, this.#source, this.#format);
    this.#staging = staging;
    try {
      const closing = await this.#read(staging);
      const summary = await this.#merge(sql, staging, closing);
      // a dry run leaves no table
      if (dryRun) await staging.drop();
      else await analyzeTables(sql);
      const unreported = this.#reported - FIRST_FAULTS;
      if (dryRun && unreported > 0)
        process.stderr.write(`${count('more line')(unreported)} would be rejected.\n`);
      return summary;
    } catch (error) {
      if (error instanceof Refusal) await staging.drop();
      throw error;
    }
  }

  /** Reports the remains of an import that failed or was interrupted, and throws its error. */
  fail(error: unknown): never {
    this.#progress?.stop();
    if (this.#staging?.keepsLines && this.#source.sizeBytes >= REPORT_FROM_BYTES)
      process.stderr.write('The lines read so far are kept: run the same command again to resume.\n');
    throw error;
  }

  async #read(staging: Staging): Promise<Closing> {
    const mark = await staging.mark();
    const progress = new Progress(`reading ${this.#source.name}`, this.#source.sizeBytes, bytes);
    this.#progress = progress;
    if (mark) progress.log(`resuming after line ${mark.number} of an interrupted import`);
    try {
      if (mark) {
        for await (const faults of staging.faults()) for (const fault of faults) this.#report(fault);
      }
      return await staging.fill(mark, (records) => {
        for (const record of records) this.#report(record);
        progress.at(this.#source.positionBytes);
      });
    } finally {
      progress.stop();
    }
  }

  #report({ line, fault }: { line: number; fault: string | undefined }): void {
    if (fault === undefined) return;
    if (++this.#reported <= FIRST_FAULTS || !this.#options.dryRun)
      this.#progress?.log(`line ${line}: ${fault}`);
  }

  async #requireUnchanged(): Promise<void> {
    if (await this.#source.isUnchanged()) return;
    throw new Refusal(
      `${this.#source.name} was written or replaced while it was read; nothing was imported.`,
    );
  }

  /** Returns the line in which the file may end midway, and reports it. An expected number of lines disproves it. */
  async #findCut(staging: Staging): Promise<number | undefined> {
    const cut = this.#options.expectLines === undefined ? await staging.cut() : undefined;
    if (!cut) return undefined;
    const start = Math.max(cut.start, cut.end - SHOWN_BYTES);
    const text = JSON.stringify(String(await this.#source.slice(start, cut.end)));
    this.#progress!.log(`line ${cut.line}: the file may end midway, no newline follows ${text}`);
    return cut.line;
  }

  async #merge(sql: Sql, staging: Staging, { headers, announced }: Closing): Promise<Summary> {
    const { dryRun = false, ...given } = this.#options;
    const { table } = staging;
    const { name } = this.#source;
    await this.#requireUnchanged();
    const cutLine = await this.#findCut(staging);
    const deleteMissing = given.deleteMissing === true && cutLine === undefined;
    const lines = await staging.count();
    const isLong = lines >= REPORT_FROM_LINES;
    const progress = new Progress('merging', lines, count('hotel'));
    this.#progress = progress;
    if (isLong) progress.log(`comparing ${count('line')(lines)} with the hotels`);
    const onReject = (line: number, fault: string) => this.#report({ line, fault });
    let summary: Summary | undefined;
    try {
      await sql.begin(dryRun ? 'isolation level repeatable read' : '', async (transaction) => {
        await transaction`set local statement_timeout = 0`;
        // a merge whose client has disconnected must not keep the hotels locked
        await transaction`set local client_connection_check_interval = '1s'`;
        await transaction`set local work_mem = '64MB'`;
        if (!dryRun) {
          await transaction`set local lock_timeout = '30s'`;
          // other writers of hotels wait until the transaction ends; readers do not
          await transaction`lock table hotels in share row exclusive mode`;
        }
        await transaction.unsafe(`analyze ${table}`);
        await rejectCollisions(transaction, { table, deleteMissing, onReject });
        const counts = await compare(transaction, { table, deleteMissing });
        summary = await summarize(transaction, table, counts, headers);
        if (summary.rejected > 0) {
          const path = rejectedPath(this.#source, this.#format);
          const omitted = await writeRejected(transaction, table, this.#source, this.#format);
          if (omitted > 0) progress.log(`${count('rejected line')(omitted)} did not fit into ${path}`);
          summary.notes.push(`The rejected lines are in ${path}: correct them and import that file.`);
        }
        const [found] = await transaction.unsafe<[{ hotels: number; withoutId: number }]>(`
          select (select count(*) from hotels)::float8 as hotels, count(*)::float8 as "withoutId" from ${table} where id is null`);
        const multiline = given.multiline || !this.#format.layout;
        const why = whyRefused(
          summary,
          { name, announced, ...found },
          { ...given, multiline, deleteMissing },
        );
        if (why && !dryRun) throw new Refusal([`${why}; nothing was imported.`, ...summary.notes].join('\n'));
        if (why) summary.notes.push(`The import would fail: ${why}.`);
        const keepsMissing = given.deleteMissing && cutLine !== undefined;
        if (keepsMissing)
          summary.notes.push(`No hotel is deleted: the file may end midway, in line ${cutLine}.`);
        summary.failed = summary.rejected > 0 || why !== undefined || keepsMissing === true;
        if (summary.rejected === 0) await removeRejected(this.#source);
        await this.#requireUnchanged();
        if (dryRun) throw new RollBack();
        progress.expect(counts.inserted + counts.updated);
        await write(transaction, { table, deleteMissing }, counts, (hotels) => progress.at(hotels));
        await transaction.unsafe(`drop table ${table}`);
      });
    } catch (error) {
      if (!(error instanceof RollBack)) throw error;
    } finally {
      progress.stop();
    }
    return summary!;
  }
}

/** Ends a successful transaction of a dry run. */
class RollBack extends Error {
  override name = 'RollBack';
}
