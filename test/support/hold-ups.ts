import { readFile } from 'node:fs/promises';
import type { Service } from './service.ts';

/**
 * Returns how often an event loop of the service was late by more than `seconds`, the bound of a bucket. `labels` restrict
 * the processes.
 */
export async function holdUps(service: Service, seconds: number, labels = {}): Promise<number> {
  const delay = 'hotel_api_event_loop_delay_seconds';
  const all = await service.metric(`${delay}_count`, labels);
  return all - (await service.metric(`${delay}_bucket`, { ...labels, le: String(seconds) }));
}

/**
 * Runs the check, and again only if it failed and an event loop of these services was late by more than `seconds`
 * meanwhile, the bound of a bucket. For what depends on a timeout that is no setting.
 */
export async function unlessHeldUp(
  services: Service[],
  seconds: number,
  check: () => Promise<void>,
): Promise<void> {
  const heldUp = () => Promise.all(services.map((service) => holdUps(service, seconds)));
  for (let attempt = 1; ; attempt++) {
    const before = await heldUp();
    const failure = await check().catch((error: Error) => error);
    if (!failure) return;
    const excused = (await heldUp()).some((times, i) => times > before[i]!);
    if (!excused || attempt === 5) throw failure;
  }
}

/** Returns the milliseconds for which a process has waited for a core. */
export async function waitedMsOf(pid: number): Promise<number> {
  const [, waitedNs] = (await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ');
  return Number(waitedNs) / 1e6;
}
