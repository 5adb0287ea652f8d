import { TLS_FAULT } from '../../config/postgres-tls.ts';
import { Failure } from '../../lib/failure.ts';
import { percentDecodeOrKeep } from '../../lib/percent-decode.ts';

/** Returns the lines for standard error and the exit code. The lines never contain the password of `databaseUrl`. */
export function explainError(error: unknown, databaseUrl = ''): { lines: string[]; exitCode: number } {
  if (error instanceof Failure) return { lines: error.message.split('\n'), exitCode: error.exitCode };
  const { code = '', message = '', stack, name } = error as Error & { code?: string };
  const advice = connectionAdvice[code] ?? (TLS_FAULT.test(code) ? CERTIFICATES : undefined);
  let text = stack ?? String(error);
  if (advice) text = `cannot use PostgreSQL: ${message || code}. ${advice}`;
  else if (name === 'PostgresError')
    text = `PostgreSQL rejected the statement (${code}): ${message}. ${statementAdvice[code] ?? 'Nothing was changed.'}`;
  return { lines: withoutPassword(text, databaseUrl).split('\n'), exitCode: 1 };
}

const REACH = 'Check host and port in DATABASE_URL and that the server runs.';
const CERTIFICATES = 'Check sslmode, sslrootcert, sslcert and sslkey in DATABASE_URL.';
const LOST =
  'The connection was lost. Nothing was changed, unless it was lost during the commit: check, then try again.';
const connectionAdvice: Record<string, string> = {
  ECONNREFUSED: REACH,
  ENOTFOUND: REACH,
  EAI_AGAIN: REACH,
  EHOSTUNREACH: REACH,
  ETIMEDOUT: REACH,
  ECONNRESET: LOST,
  CONNECT_TIMEOUT: REACH,
  CONNECTION_UNANSWERED: REACH,
  CONNECTION_CLOSED: LOST,
  CONNECTION_DESTROYED: LOST,
  '28P01': 'Check user and password in DATABASE_URL.',
  '28000': 'Check the user in DATABASE_URL and pg_hba.conf.',
  '3D000': 'Create the database first, or check its name in DATABASE_URL.',
  '57P01': LOST,
  '57P03': 'The server is starting or stopping; try again.',
  '53300': 'The server has no free connection; raise max_connections or close some.',
};
const statementAdvice: Record<string, string> = {
  '42P01': 'Run: hotel-api migrate',
  '42501': 'The user of DATABASE_URL must own the tables of hotel-api.',
  '55P03': 'Another transaction has locked the table. Nothing was changed; try again after it has ended.',
  '40P01': 'Nothing was changed; try again.',
};

function withoutPassword(text: string, databaseUrl: string): string {
  const password = /^[a-z]+:\/\/[^:@/]*:(.+)@/.exec(databaseUrl)?.[1];
  // a shorter password would match parts of ordinary words
  if (!password || password.length < 4) return text;
  return text.replaceAll(password, '***').replaceAll(percentDecodeOrKeep(password), '***');
}
