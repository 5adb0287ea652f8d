import { monotonicMs } from './clock.ts';

/** npm forwards a signal that the terminal has also sent: a second signal within this time counts as the same one. */
const SAME_SIGNAL_MS = 500;

/** Calls `stop` at the first of these signals, and `force` at each later one that is not the same. */
export function onStopSignals(
  signals: readonly NodeJS.Signals[],
  stop: (signal: string) => void,
  force: () => void,
): void {
  let stoppedAtMs: number | undefined;
  const receive = (signal: NodeJS.Signals) => {
    if (stoppedAtMs === undefined) {
      stoppedAtMs = monotonicMs();
      stop(signal);
    } else if (monotonicMs() - stoppedAtMs >= SAME_SIGNAL_MS) force();
  };
  for (const signal of signals) process.on(signal, receive);
}
