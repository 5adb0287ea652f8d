import type { Sql } from 'postgres';
import { Failure } from '../failure.ts';
import { Progress } from '../progress.ts';
import { print, withDatabase } from '../session.ts';
import { type Counts, merge } from './merge.ts';
import { copyStretches, openSource, type Source } from './source.ts';
import { Rejections, stage } from './staging.ts';

export interface ImportOptions {
  dryRun?: boolean;
  deleteMissing?: boolean;
  json?: boolean;
}

/** An import of so many lines takes a while after they are read, and says so. */
const TELL_FROM_LINES = 50_000;

type Result = Counts & { rejected: number };

/** `import FILE`. Sets the exit code 1 when a line was rejected. */
export async function importHotels(path: string, options: ImportOptions): Promise<void> {
  const source = await openSource(path);
  const progress = new Progress(
    `reading ${source.name}`,
    source.sizeBytes,
    (bytes) => `${(bytes / 1e6).toFixed(1)} MB`,
  );
  try {
    const result = await withDatabase((sql) => importSource(sql, source, options, progress));
    progress.stop();
    print(options.json, result, describe(result, source, options));
    if (result.rejected > 0) process.exitCode = 1;
  } finally {
    progress.stop();
    await source.handle.close();
  }
}

/**
 * One transaction from the first line to the last: other readers see all of the import or nothing, and a crash
 * leaves nothing. Lines go to a temporary table by COPY and are merged from there in sets, so a wrong line costs
 * no savepoint, and a file that changes nothing writes nothing.
 */
async function importSource(
  sql: Sql,
  source: Source,
  options: ImportOptions,
  progress: Progress,
): Promise<Result> {
  const { dryRun = false, deleteMissing = false } = options;
  const rejections = new Rejections((sentence) => progress.say(sentence));
  let result: Result | undefined;
  try {
    await sql.begin(async (transaction) => {
      await transaction`set local statement_timeout = 0`;
      const lines = await stage(transaction, source, rejections, (bytes) => progress.at(bytes));
      progress.stop();
      if (lines >= TELL_FROM_LINES) progress.say(`merging ${lines} lines`);
      if (deleteMissing) await refuseBlindDeletion(source, lines, rejections);
      const counts = await merge(transaction, { deleteMissing }, rejections);
      if (rejections.stretches.length > 0) await copyStretches(source, rejections.stretches);
      result = { ...counts, rejected: rejections.stretches.length };
      if (dryRun) throw new RollBack();
    });
  } catch (error) {
    if (!(error instanceof RollBack)) throw error;
  }
  return result!;
}

/** Ends a transaction that went as it should without keeping it. */
class RollBack extends Error {
  override name = 'RollBack';
}

async function refuseBlindDeletion(source: Source, lines: number, rejections: Rejections): Promise<void> {
  if (rejections.withoutId > 0) {
    await copyStretches(source, rejections.stretches);
    throw new Failure(
      `--delete-missing was refused and nothing was imported: ${rejections.withoutId} rejected line(s) do not tell which ` +
        `hotel they mean, so it might be deleted. Correct them (they are in ${source.rejectedPath}) and import the whole file again.`,
    );
  }
  if (lines === 0) {
    throw new Failure(
      `--delete-missing was refused: ${source.name} holds no hotel, so every hotel would be deleted. ` +
        'If that is meant, say so in SQL: delete from hotels',
    );
  }
}

function describe(result: Result, source: Source, { dryRun }: ImportOptions): string {
  const { inserted, updated, unchanged, deleted, rejected } = result;
  const counts = `${inserted} inserted, ${updated} updated, ${unchanged} unchanged, ${deleted} deleted, ${rejected} rejected`;
  return [
    dryRun ? `Dry run, nothing was changed. An import would be: ${counts}` : counts,
    ...(rejected > 0
      ? [`The rejected lines are in ${source.rejectedPath}: correct them and import that file.`]
      : []),
  ].join('\n');
}
