import { type Logger, pino, stdTimeFunctions } from 'pino';
import { Events } from './events.ts';
import { StandardOutput } from './standard-output.ts';

/** All logs of a process share it. */
let output: StandardOutput | undefined;

/**
 * Of an error what its programmer wrote: its other properties (a query's parameters, a server's detail) may hold
 * what clients sent.
 */
function describe(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, cause } = error;
  const code = (error as { code?: unknown }).code;
  return {
    type: name,
    message,
    ...(code !== undefined && { code }),
    stack,
    ...(cause !== undefined && { cause: describe(cause) }),
  };
}

/** A logger of JSON lines on standard output; readable for people where that is a terminal. */
export function openLog(level: string, role: string): Logger {
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: stdTimeFunctions.isoTime,
    serializers: { err: describe },
  };
  if (process.stdout.isTTY) {
    return pino({
      ...options,
      transport: { target: 'pino-pretty', options: { ignore: 'pid,hostname' } },
    });
  }
  output ??= new StandardOutput();
  const log = pino({ ...options, formatters: { level: (label) => ({ level: label }) } }, output);
  output.onDropped ??= (lines) => new Events(log).linesDropped(lines);
  return log;
}
