import { randomInt } from 'node:crypto';
import { requireFreePort } from '../../cluster/free-port.ts';

/** Ports that need no privilege, below those that Linux (from 32768) and others give to outgoing connections. */
const [FIRST_PORT, END_PORT] = [10_000, 32_768];

/** Returns true if the port is free on all addresses and on the loopback. */
export async function isFree(port: number): Promise<boolean> {
  try {
    for (const host of ['0.0.0.0', '127.0.0.1']) await requireFreePort(host, port);
    return true;
  } catch {
    return false;
  }
}

/** Returns a port that was free a moment ago, and that the system gives to no outgoing connection. */
export async function freePort(): Promise<number> {
  let port: number;
  do port = randomInt(FIRST_PORT, END_PORT);
  while (!(await isFree(port)));
  return port;
}

/**
 * Returns the requested port, else the usual one, else a free one, which `log` reports. Throws if the requested port is in
 * use.
 */
export async function choosePort(
  requested: number | undefined,
  usual: number,
  option: string,
  log: (sentence: string) => void,
): Promise<number> {
  if (await isFree(requested ?? usual)) return requested ?? usual;
  if (requested !== undefined)
    throw new Error(`port ${requested} cannot be used here; set --${option} to another port or omit it`);
  const other = await freePort();
  log(`Port ${usual} is in use: using ${other} instead.`);
  return other;
}
