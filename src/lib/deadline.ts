import { clearTimer, onIteration, setTimer } from './clock.ts';

export class DeadlineExceeded extends Error {
  override name = 'DeadlineExceeded';
}

/** Settles as `work` does, or rejects with `DeadlineExceeded` after `deadlineMs`. `work` itself is not cancelled. */
export async function withDeadline<T>(work: PromiseLike<T>, deadlineMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimer(() => {
    // a result that arrived in time is read first
    onIteration(() => late.reject(new DeadlineExceeded(`not done within ${Math.round(deadlineMs)} ms`)));
  }, deadlineMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimer(timer);
  }
}
