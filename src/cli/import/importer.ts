import type { Sql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { analyzeTables } from '../../postgres/analyze.ts';
import { bytes, count, Progress } from '../common/progress.ts';
import { rejectedPath, writeRejected } from '../common/rejects.ts';
import type { Source } from '../common/source.ts';
import { rejectCollisions } from './collisions.ts';
import type { Format } from './format.ts';
import { type Counts, compare, write } from './merge.ts';
import { isTakenOver, type Staged, Staging } from './staging.ts';

export interface ImportOptions {
  dryRun?: boolean;
  deleteMissing?: boolean;
  json?: boolean;
}

/** Maximum number of faults that a dry run prints. */
const FIRST_FAULTS = 20;
/** Source size from which an interrupted import reports that its lines are kept. */
const REPORT_FROM_BYTES = 1024 * 1024;
/** Number of lines from which the comparison is announced. */
const REPORT_FROM_LINES = 50_000;

/** Result of an import. `converted_uris` counts those of valid lines; absent if 0. */
export type Result = Counts & { rejected: number; converted_uris?: number };

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

  async run(sql: Sql): Promise<Result> {
    const staging = await Staging.open(sql, this.#source, this.#format);
    this.#staging = staging;
    await this.#read(staging);
    const staged = await staging.count();
    if (this.#options.deleteMissing) await this.#rejectBlindDeletion(sql, staging, staged);
    const result = await this.#merge(sql, staging.table, staged);
    // a dry run leaves no table
    if (this.#options.dryRun) await staging.drop();
    else await analyzeTables(sql);
    const unreported = this.#reported - FIRST_FAULTS;
    if (this.#options.dryRun && unreported > 0)
      process.stderr.write(`${count('more line')(unreported)} would be rejected.\n`);
    return result;
  }

  /** Reports the remains of an import that failed or was interrupted, and throws its error. */
  fail(error: unknown): never {
    this.#progress?.stop();
    if (isTakenOver(error))
      throw new Failure(
        `${this.#source.name} is also imported by another process, which has taken over. See its output.`,
      );
    if (this.#staging?.keepsLines && this.#source.sizeBytes >= REPORT_FROM_BYTES)
      process.stderr.write('The lines read so far are kept: run the same command again to resume.\n');
    throw error;
  }

  async #read(staging: Staging): Promise<void> {
    const mark = await staging.mark();
    const progress = new Progress(`reading ${this.#source.name}`, this.#source.sizeBytes, bytes);
    this.#progress = progress;
    if (mark) progress.log(`resuming after line ${mark.number} of an interrupted import`);
    try {
      if (mark) {
        for await (const faults of staging.faults()) for (const fault of faults) this.#report(fault);
      }
      await staging.fill(mark, (records) => {
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

  async #merge(sql: Sql, table: string, staged: Staged): Promise<Result> {
    const { dryRun = false, deleteMissing = false } = this.#options;
    const isLong = staged.lines >= REPORT_FROM_LINES;
    const progress = new Progress('merging', staged.lines, count('hotel'));
    this.#progress = progress;
    if (isLong) progress.log(`comparing ${count('line')(staged.lines)} with the hotels`);
    let { rejected } = staged;
    const onReject = (line: number, fault: string) => {
      rejected++;
      this.#report({ line, fault });
    };
    let result: Result | undefined;
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
        if (rejected > 0) {
          const omitted = await writeRejected(transaction, table, this.#source, this.#format);
          if (omitted > 0)
            progress.log(
              `${count('rejected line')(omitted)} did not fit into ${rejectedPath(this.#source, this.#format)}`,
            );
        }
        const [converted] = await transaction.unsafe<[{ uris: number }]>(
          `select coalesce(sum(converted_uris), 0)::float8 as uris from ${table} where fault is null`,
        );
        result = { ...counts, rejected, ...(converted.uris > 0 && { converted_uris: converted.uris }) };
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
    return result!;
  }

  /** Throws and drops the staged lines if hotels might be deleted by mistake. */
  async #rejectBlindDeletion(sql: Sql, staging: Staging, { lines, withoutId }: Staged): Promise<void> {
    if (withoutId > 0) await writeRejected(sql, staging.table, this.#source, this.#format);
    if (withoutId === 0 && lines > 0) return;
    await staging.drop();
    if (withoutId > 0) {
      throw new Failure(
        `--delete-missing was rejected and nothing was imported: ${withoutId} rejected line(s) have no readable ` +
          `id, so their hotels might be deleted. Correct them (they are in ${rejectedPath(this.#source, this.#format)}) and import the whole file again.`,
      );
    }
    throw new Failure(
      `--delete-missing was rejected: ${this.#source.name} contains no hotel, so every hotel would be deleted. ` +
        'If that is intended, run in SQL: delete from hotels',
    );
  }
}

/** Ends a successful transaction of a dry run. */
class RollBack extends Error {
  override name = 'RollBack';
}
