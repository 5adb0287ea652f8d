import type { Sql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { bytes, count, Progress } from '../progress.ts';
import { print, withDatabase } from '../session.ts';
import { rejectWhatCollides } from './collisions.ts';
import { detectFormat, type Format } from './format.ts';
import { type Counts, compare, write } from './merge.ts';
import { rejectedPath, writeRejected } from './rejects.ts';
import { Source } from './source.ts';
import { isTakenOver, type Staged, Staging } from './staging.ts';

export interface ImportOptions {
  dryRun?: boolean;
  deleteMissing?: boolean;
  json?: boolean;
}

/** Faults that a dry run prints. */
const FIRST_FAULTS = 20;
/** A smaller file is read in a moment: nobody needs to know that this is not done again. */
const TELL_FROM_BYTES = 1024 * 1024;
/** An import of so many lines takes a while after they are read, and says so. */
const TELL_FROM_LINES = 50_000;

/** `converted_uris`: of the lines that were not rejected; absent where it would be 0. */
type Result = Counts & { rejected: number; converted_uris?: number };

/** `import FILE`. Sets the exit code 1 when a line was rejected. */
export async function importHotels(path: string, options: ImportOptions): Promise<void> {
  const source = await Source.open(path);
  try {
    const format = await detectFormat(source);
    const work = new Import(source, format, options);
    const result = await withDatabase((sql) => work.run(sql)).catch((error) => work.leave(error));
    print(options.json, result, describe(result, rejectedPath(source, format), options));
    if (result.rejected > 0) process.exitCode = 1;
  } finally {
    await source.close();
  }
}

/**
 * Two steps. The lines are read into a table of their own, batch by batch: what is interrupted there goes on where
 * it was. Then one transaction judges them and merges them into the hotels: others see all of the import or nothing.
 * Sets are compared, not rows, so a wrong line costs no savepoint, and a file that changes nothing writes nothing.
 */
class Import {
  readonly #source: Source;
  readonly #format: Format;
  readonly #options: ImportOptions;
  #progress: Progress | undefined;
  #reported = 0;
  /** true: the database holds lines that the next import of this content need not read */
  #keepsLines = false;

  constructor(source: Source, format: Format, options: ImportOptions) {
    this.#source = source;
    this.#format = format;
    this.#options = options;
  }

  async run(sql: Sql): Promise<Result> {
    const staging = await Staging.open(sql, this.#source, this.#format);
    await this.#read(staging);
    const staged = await staging.count();
    if (this.#options.deleteMissing) await this.#rejectBlindDeletion(sql, staging, staged);
    const result = await this.#merge(sql, staging.table, staged);
    // A dry run leaves nothing.
    if (this.#options.dryRun) await staging.drop();
    const unsaid = this.#reported - FIRST_FAULTS;
    if (this.#options.dryRun && unsaid > 0)
      process.stderr.write(`${count('more line')(unsaid)} would be rejected.\n`);
    return result;
  }

  /** Says what remains of an import that failed or was interrupted, and throws its error. */
  leave(error: unknown): never {
    this.#progress?.stop();
    if (isTakenOver(error))
      throw new Failure(
        `${this.#source.name} is imported by another process too, which has taken over. See what that one says.`,
      );
    if (this.#keepsLines && this.#source.sizeBytes >= TELL_FROM_BYTES)
      process.stderr.write('What was read is kept: run the same command again to go on from there.\n');
    throw error;
  }

  async #read(staging: Staging): Promise<void> {
    const mark = await staging.mark();
    this.#keepsLines = mark !== undefined;
    const progress = new Progress(`reading ${this.#source.name}`, this.#source.sizeBytes, bytes);
    this.#progress = progress;
    if (mark)
      progress.say(`going on behind line ${mark.number}, where an earlier import of it was interrupted`);
    try {
      if (mark)
        for await (const faults of staging.faults())
          for (const fault of faults) this.#report(fault, progress);
      await staging.fill(mark, {
        onRead: (records) => {
          for (const record of records) this.#report(record, progress);
          progress.at(this.#source.positionBytes);
        },
        onKept: (keeps) => {
          this.#keepsLines = keeps;
        },
      });
    } finally {
      progress.stop();
    }
  }

  #report({ line, fault }: { line: number; fault: string | undefined }, progress: Progress): void {
    if (fault === undefined) return;
    if (++this.#reported <= FIRST_FAULTS || !this.#options.dryRun) progress.say(`line ${line}: ${fault}`);
  }

  async #merge(sql: Sql, table: string, staged: Staged): Promise<Result> {
    const { dryRun = false, deleteMissing = false } = this.#options;
    const isLong = staged.lines >= TELL_FROM_LINES;
    const progress = new Progress('merging', staged.lines, count('hotel'));
    this.#progress = progress;
    if (isLong) progress.say(`comparing ${count('line')(staged.lines)} with the hotels`);
    let { rejected } = staged;
    const onReject = (line: number, fault: string) => {
      rejected++;
      this.#report({ line, fault }, progress);
    };
    let result: Result | undefined;
    try {
      await sql.begin(dryRun ? 'isolation level repeatable read' : '', async (transaction) => {
        await transaction`set local statement_timeout = 0`;
        // A merge whose operator is gone must not keep the hotels locked.
        await transaction`set local client_connection_check_interval = '1s'`;
        await transaction`set local work_mem = '64MB'`;
        if (!dryRun) {
          await transaction`set local lock_timeout = '30s'`;
          // Other writers of hotels wait until the transaction ends, readers do not.
          await transaction`lock table hotels in share row exclusive mode`;
        }
        await transaction.unsafe(`analyze ${table}`);
        await rejectWhatCollides(transaction, { table, deleteMissing, onReject });
        const counts = await compare(transaction, { table, deleteMissing });
        if (rejected > 0) {
          const omitted = await writeRejected(transaction, table, this.#source, this.#format);
          if (omitted > 0)
            progress.say(
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

  /** The file has to come again, with another content: nothing of this one is kept. */
  async #rejectBlindDeletion(sql: Sql, staging: Staging, { lines, withoutId }: Staged): Promise<void> {
    if (withoutId > 0) await writeRejected(sql, staging.table, this.#source, this.#format);
    if (withoutId === 0 && lines > 0) return;
    await staging.drop();
    this.#keepsLines = false;
    if (withoutId > 0) {
      throw new Failure(
        `--delete-missing was refused and nothing was imported: ${withoutId} rejected line(s) do not tell which ` +
          `hotel they mean, so it might be deleted. Correct them (they are in ${rejectedPath(this.#source, this.#format)}) and import the whole file again.`,
      );
    }
    throw new Failure(
      `--delete-missing was refused: ${this.#source.name} holds no hotel, so every hotel would be deleted. ` +
        'If that is meant, say so in SQL: delete from hotels',
    );
  }
}

/** Ends a transaction that went as it should without keeping it. */
class RollBack extends Error {
  override name = 'RollBack';
}

function describe(result: Result, path: string, { dryRun }: ImportOptions): string {
  const { inserted, updated, unchanged, deleted, rejected, converted_uris: uris } = result;
  const counts = `${inserted} inserted, ${updated} updated, ${unchanged} unchanged, ${deleted} deleted, ${rejected} rejected`;
  return [
    dryRun ? `Dry run, nothing was changed. An import would be: ${counts}` : counts,
    ...(uris ? [`${count('IRI')(uris)} converted to URIs (percent-encoding, punycode).`] : []),
    ...(rejected > 0 ? [`The rejected lines are in ${path}: correct them and import that file.`] : []),
  ].join('\n');
}
