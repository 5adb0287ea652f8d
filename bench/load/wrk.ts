import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Call, LoadResult } from './call.ts';

const SCRIPT = fileURLToPath(new URL('./wrk.lua', import.meta.url));
const run = promisify(execFile);

interface Summary {
  requests: number;
  durationUs: number;
  bytes: number;
  status: number;
  broken: number;
  timeout: number;
  p50Us: number;
  p99Us: number;
}

/** Writes the calls of `wrkLoop` to a file. */
export async function writeCalls(file: string, calls: Call[]): Promise<void> {
  const parts = calls.flatMap(({ bytes }) => [Buffer.from(`${bytes.length}\n`), bytes]);
  await writeFile(file, Buffer.concat(parts));
}

/**
 * Closed loop by wrk, which takes a tenth of the CPU time of a generator in Node for small responses. It counts
 * statuses from 400 and the bytes of all responses, whose sum is known except for requests in flight at the end.
 * `headBytes`: the length of the head of a response of this target.
 */
export async function wrkLoop(
  program: string,
  port: number,
  calls: Call[],
  options: { file: string; connections: number; seconds: number; from: number; headBytes: number },
): Promise<LoadResult> {
  const { file, connections, seconds, from, headBytes } = options;
  const { stdout } = await run(program, [
    ...['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '-s', SCRIPT, `http://127.0.0.1:${port}`],
    ...['--', file, String(from)],
  ]);
  const line = stdout.split('\n').find((each) => each.startsWith('RESULT '));
  if (!line) throw new Error(`wrk printed: ${stdout}`);
  const summary: Summary = JSON.parse(line.slice('RESULT '.length));

  const faults: string[] = [];
  const rejected = calls[0]!.status >= 400 ? summary.requests - summary.status : summary.status;
  if (rejected > 0) faults.push(`${rejected} responses had a status other than ${calls[0]!.status}`);
  if (summary.broken + summary.timeout > 0)
    faults.push(`${summary.broken} connections broke, ${summary.timeout} requests took over 2 s`);
  const expected = expectedBytes(calls, from, summary.requests, headBytes);
  const largest = calls.reduce((most, call) => Math.max(most, call.bodyBytes), 0) + headBytes;
  // content-length may have more or fewer digits than in the measured head
  const slack = connections * largest + 2 * summary.requests;
  if (!calls[0]!.mayBeCompressed && Math.abs(summary.bytes - expected) > slack)
    faults.push(`${summary.bytes} bytes were received, ${expected} expected`);
  return {
    requests: summary.requests,
    seconds: summary.durationUs / 1e6,
    p50Us: summary.p50Us,
    p99Us: summary.p99Us,
    faults,
    faultCount: faults.length === 0 ? 0 : Math.max(1, rejected + summary.broken + summary.timeout),
  };
}

function expectedBytes(calls: Call[], from: number, requests: number, headBytes: number): number {
  const whole = calls.reduce((sum, { bodyBytes }) => sum + bodyBytes, 0);
  let bytes = Math.floor(requests / calls.length) * whole + requests * headBytes;
  for (let i = 0; i < requests % calls.length; i++) bytes += calls[(from + i) % calls.length]!.bodyBytes;
  return bytes;
}
