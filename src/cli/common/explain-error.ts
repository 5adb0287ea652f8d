import { TLS_FAULT } from '../../config/postgres-tls.ts';
import { Failure } from '../../lib/failure.ts';
import { percentDecode } from '../../lib/percent-decode.ts';
import { ENDED, LOST } from '../../postgres/failure.ts';

/** Returns the lines for standard error and the exit code. The lines never contain the password of `databaseUrl`. */
export function explainError(error: unknown, databaseUrl = ''): { lines: string[]; exitCode: number } {
  if (error instanceof Failure) return { lines: error.message.split('\n'), exitCode: error.exitCode };
  const { code = '', message = '', stack, name } = error as Error & { code?: string };
  const [, advice] = CONNECTION_ADVICE.find(([codes]) => codes.test(code)) ?? [];
  let text = stack ?? String(error);
  if (advice) text = `cannot use PostgreSQL: ${message || code}. ${advice}`;
  else if (name === 'PostgresError')
    text = `PostgreSQL rejected the statement (${code}): ${message}. ${STATEMENT_ADVICE[code] ?? 'Nothing was changed.'}`;
  return { lines: withoutPassword(text, databaseUrl).split('\n'), exitCode: 1 };
}

/** Advice by the code of a connection that ended or was never made; the first that fits counts. */
const CONNECTION_ADVICE: [codes: RegExp, advice: string][] = [
  [
    ENDED,
    'The connection was lost. Nothing was changed, unless it was lost during the commit: check, then try again.',
  ],
  [LOST, 'Check host and port in DATABASE_URL and that the server runs.'],
  [TLS_FAULT, 'Check sslmode, sslrootcert, sslcert and sslkey in DATABASE_URL.'],
  [/^28/, 'Check user and password in DATABASE_URL, and pg_hba.conf.'],
  [/^3D000$/, 'Create the database first, or check its name in DATABASE_URL.'],
  [/^57P03$/, 'The server is starting or stopping; try again.'],
  [/^53300$/, 'The server has no free connection; raise max_connections or close some.'],
];
const STATEMENT_ADVICE: Record<string, string> = {
  '42P01': 'Run: hotel-api migrate',
  '42501': 'The user of DATABASE_URL must own the tables of hotel-api.',
  '55P03': 'Another transaction has locked the table. Nothing was changed; try again after it has ended.',
  '40P01': 'Nothing was changed; try again.',
};

function withoutPassword(text: string, databaseUrl: string): string {
  const password = /^[a-z]+:\/\/[^:@/]*:(.+)@/.exec(databaseUrl)?.[1];
  // a shorter password would match parts of ordinary words
  if (!password || password.length < 4) return text;
  return text.replaceAll(password, '***').replaceAll(percentDecode(password) ?? password, '***');
}
