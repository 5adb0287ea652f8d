import { type Logger, pino, stdTimeFunctions } from 'pino';
import { Events } from './events.ts';
import { StandardOutput } from './standard-output.ts';

/** Destination shared by all logs of a process. */
let output: StandardOutput | undefined;

/**
 * Describes an error by name, message and stack. Its other properties (a query's parameters, a server's detail) may
 * hold client data.
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

/** Opens a logger that writes JSON lines to standard output. */
export function openLog(level: string, role: string): Logger {
  output ??= new StandardOutput();
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: stdTimeFunctions.isoTime,
    serializers: { err: describe },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const log = pino(options, output);
  output.onDropped ??= (lines) => new Events(log).linesDropped(lines);
  return log;
}
