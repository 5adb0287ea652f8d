import type { ToPrimary } from './messages.ts';

/**
 * What the process of a worker runs first. It says that it is alive before the program is read, so that the primary
 * can tell one that is frozen at its start from one that is slow to start.
 */
const ALIVE_EVERY_MS = 500;

function tell(message: ToPrimary): void {
  if (process.connected) process.send!(message, () => {});
}

tell({ type: 'alive' });
setInterval(tell, ALIVE_EVERY_MS, { type: 'alive' }).unref();
import('./worker.ts').catch((error: Error) => {
  process.stderr.write(`${error.stack}\n`);
  tell({ type: 'failed', reason: error.message });
  setTimeout(() => process.exit(1), 50);
});
