import { setTimeout as sleep } from 'node:timers/promises';
import { type Charge, removeFolder, signalled } from './guarded.ts';

/**
 * Guard of the servers that a process has started: when that has exited for any reason, which closes the channel, it stops them
 * and removes their folders. It has a session of its own, so Ctrl-C in the terminal does not reach it.
 */
const charges = new Map<number, Charge>();
const LOOK_EVERY_MS = 50;

process.on('message', (message) => {
  const [number, charge] = message as [number, Charge | null];
  if (charge) charges.set(number, charge);
  else charges.delete(number);
});
process.on('disconnect', async () => {
  await Promise.all([...charges.values()].map(end));
  process.exit();
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

async function end({ pid, stopSignal, killAfterMs, folder }: Charge): Promise<void> {
  signalled(pid, stopSignal);
  for (let ms = 0; ms < killAfterMs && signalled(-pid, 0); ms += LOOK_EVERY_MS) await sleep(LOOK_EVERY_MS);
  signalled(-pid, 'SIGKILL');
  await removeFolder(folder);
}
