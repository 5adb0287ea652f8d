import type { Sql } from 'postgres';
import { withAddressFiles } from '../config/address-files.ts';
import { ConfigError, readConfig } from '../config/config.ts';
import { directUrlOf } from '../config/connection-addresses.ts';
import { Failure } from '../lib/failure.ts';
import { openDatabase } from '../postgres/connect.ts';
import { printable } from './printable.ts';

/**
 * Runs `work` with one connection to the database of DATABASE_DIRECT_URL, or where that is unset DATABASE_URL, and closes
 * it afterwards; it reads no other variable.
 * A Ctrl-C or SIGTERM closes it too and is a `Failure`: the database rolls back what was not committed.
 */
export async function withDatabase<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = openDatabase(directDatabaseUrl(), 1, { kind: 'operate' });
  const { promise: lost, reject } = Promise.withResolvers<never>();
  // postgres.js 3.4 rolls a transaction back even where its connection is gone, and the failing write is thrown
  // at the process. It may come after `work` has failed for the same reason, so the listener stays.
  process.on('uncaughtException', (error) => reject(isWriteAfterLoss(error) ? connectionLost() : error));
  const interrupt = () => reject(new Failure('Interrupted: what was under way is rolled back.'));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupt);
  let graceS = 0;
  try {
    const result = await Promise.race([work(sql), lost]);
    graceS = 2;
    return result;
  } finally {
    // After a failure there is nothing to wait for, and a lost connection would not end by itself.
    await sql.end({ timeout: graceS });
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.removeListener(signal, interrupt);
  }
}

/** The addresses of the database, from the environment or from the files that it names. Throws a `ConfigError`. */
function addresses(): NodeJS.ProcessEnv {
  const names = ['DATABASE_URL', 'DATABASE_DIRECT_URL'].flatMap((name) => [name, `${name}_FILE`]);
  const [found, faults] = withAddressFiles(
    Object.fromEntries(names.map((name) => [name, process.env[name]])),
  );
  if (faults.length > 0) throw new ConfigError(faults.join('\n'));
  return found;
}

/** The address that commands use. Throws a `ConfigError`. */
export function directDatabaseUrl(): string {
  const { DATABASE_URL, DATABASE_DIRECT_URL } = addresses();
  // either will do
  return directUrlOf(readConfig({ DATABASE_URL: DATABASE_URL || DATABASE_DIRECT_URL, DATABASE_DIRECT_URL }));
}

function isWriteAfterLoss(error: Error): boolean {
  return (
    error instanceof TypeError &&
    /reading 'write'/.test(error.message) &&
    /postgres.src.connection/.test(error.stack ?? '')
  );
}

function connectionLost(): Error {
  return Object.assign(new Error('write to a closed connection'), { code: 'CONNECTION_CLOSED' });
}

/** Prints a command's result on standard output: one JSON document, or lines for a person. */
export function print(asJson: boolean | undefined, result: unknown, human: string): void {
  process.stdout.write(`${printable(asJson ? JSON.stringify(result, null, 2) : human)}\n`);
}
