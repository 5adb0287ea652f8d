import type { Sql } from 'postgres';
import { readConfig } from '../../config/config.ts';
import { Failure } from '../../lib/failure.ts';
import { openDatabase } from '../../postgres/connect.ts';
import { openDetected, requireOperatorSettings } from '../../postgres/logins.ts';
import { print } from './print.ts';

/** Result of a command. A person gets `shown`, by default the same, and the note. */
interface Result {
  printed: object;
  shown?: object | null;
  note?: string;
}

/** Returns the action of a command: runs `work` with the database, the arguments and the options, and prints the result. */
export function onDatabase<Given extends unknown[]>(work: (sql: Sql, ...given: Given) => Promise<Result>) {
  return async (...given: Given): Promise<void> => {
    const { printed, note, shown } = await withDatabase((sql) => work(sql, ...given));
    // the command itself is the last argument
    const { json } = given.at(-2) as { json?: boolean };
    print(json, printed, note, shown);
  };
}

/**
 * Runs `work` with one connection to the database of DATABASE_URL, and closes it afterwards. It reads no other variable than this
 * and `DATABASE_URL_FILE`. SIGINT and SIGTERM close it with a `Failure`: the database rolls back uncommitted work.
 */
async function withDatabase<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
  const { DATABASE_URL, DATABASE_URL_FILE } = process.env;
  const { DATABASE_URL: url } = readConfig({ DATABASE_URL, DATABASE_URL_FILE });
  let sql: Sql | undefined;
  const connectAndWork = async () => {
    const opened = await openDetected((pooled) => openDatabase(url, 1, { kind: 'operate', pooled }));
    sql = opened.sql;
    if (opened.pooled) await requireOperatorSettings(sql);
    return work(sql);
  };
  const { promise: lost, reject } = Promise.withResolvers<never>();
  // postgres.js 3.4 rolls back even on a lost connection, and throws the failed write at the process, possibly after
  // `work` has failed for the same reason; so the listener stays after a failure
  const connectionLost = Object.assign(new Error('write to a closed connection'), {
    code: 'CONNECTION_CLOSED',
  });
  const report = (error: Error) => reject(isWriteAfterLoss(error) ? connectionLost : error);
  process.on('uncaughtException', report);
  const interrupt = () => reject(new Failure('Interrupted: uncommitted changes were rolled back.'));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupt);
  let graceS = 0;
  try {
    const result = await Promise.race([connectAndWork(), lost]);
    graceS = 2;
    process.removeListener('uncaughtException', report);
    return result;
  } finally {
    // after a failure the grace time is 0, because a lost connection would not close by itself
    await sql?.end({ timeout: graceS });
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.removeListener(signal, interrupt);
  }
}

function isWriteAfterLoss(error: Error): boolean {
  return (
    error instanceof TypeError &&
    /reading 'write'/.test(error.message) &&
    /\bnextWrite\b/.test(error.stack ?? '')
  );
}
