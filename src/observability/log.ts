import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { monotonicMs, setTimer, type Timer } from '../lib/clock.ts';
import { Events } from './events.ts';

/** Maximum number of bytes waiting for the reader of standard output. Further lines are dropped. */
const MAX_UNWRITTEN_BYTES = 1024 ** 2;
const WRITE_AGAIN_MS = 50;
/** Maximum time that an exiting process waits for the reader of its last lines, and the interval of its checks. */
const AT_EXIT_MS = 1_000;
const CHECK_AT_EXIT_MS = 5;

/** Standard output, shared by all logs of a process. */
let output: DestinationStream | undefined;

/**
 * Opens standard output. A line is written before `write` returns, so that it survives any end of the process. If the
 * reader of the pipe is slow, lines wait up to a bound and the process continues; `onDropped` gets the number of lines
 * beyond it when there is room again.
 */
function openOutput(onDropped: (lines: number) => void): DestinationStream {
  // libuv makes a pipe non-blocking when Node opens it
  void process.stdout;
  const stream = pino.destination({ sync: true, maxLength: MAX_UNWRITTEN_BYTES, retryEAGAIN: () => false });
  let isFull = false;
  let dropped = 0;
  let retrying: Timer | undefined;
  const retry = () => {
    retrying = undefined;
    isFull = false;
    stream.write('');
    if (isFull || dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    onDropped(lines);
  };
  // pino's own handler would throw if there is no room in the pipe or on the disk
  stream.removeAllListeners('error').on('error', ({ code }: NodeJS.ErrnoException) => {
    isFull = code !== 'EPIPE';
    if (!isFull) stream.write = () => true;
    else if (!retrying) retrying = setTimer(retry, WRITE_AGAIN_MS).unref();
  });
  stream.on('drop', () => dropped++);
  // pino calls it behind a fatal line, and it would loop without a reader
  stream.flushSync = () => {};
  process.on('exit', () => {
    const untilMs = monotonicMs() + AT_EXIT_MS;
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (; isFull && monotonicMs() < untilMs; retry()) Atomics.wait(pause, 0, 0, CHECK_AT_EXIT_MS);
  });
  return stream;
}

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
  output ??= openOutput((lines) => new Events(log).linesDropped(lines));
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: stdTimeFunctions.isoTime,
    serializers: { err: describe },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const log: Logger = pino(options, output);
  return log;
}
