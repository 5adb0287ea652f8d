import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { closeAtEnd } from '../support/cleanup.ts';

const run = promisify(execFile);
const HOST = '127.0.0.2';
/** Linux's default. */
const UNPACED = 'cubic';

export interface Path {
  host: string;
  congestionControl: string;
}

/**
 * Returns a loopback address to which the kernel sends without pacing. BBR paces by timers. It takes a client that
 * received a few bytes for slow, and sends the next megabyte in portions, at the cost of the worker. If the machine
 * uses BBR and the setting cannot be changed, it remains.
 */
export async function unpacedPath(): Promise<Path> {
  const congestionControl = (
    await readFile('/proc/sys/net/ipv4/tcp_congestion_control', 'utf8').catch(() => 'not known')
  ).trim();
  if (congestionControl !== 'bbr') return { host: '127.0.0.1', congestionControl };
  const route = ['local', `${HOST}/32`, 'dev', 'lo', 'table', 'local'];
  try {
    await run('ip', ['route', 'replace', ...route, 'congctl', UNPACED]);
  } catch {
    return { host: '127.0.0.1', congestionControl };
  }
  closeAtEnd(`the route to ${HOST}`, async () => {
    await run('ip', ['route', 'del', ...route]);
  });
  return { host: HOST, congestionControl: UNPACED };
}
