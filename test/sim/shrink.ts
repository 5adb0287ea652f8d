import type { Violation } from './checker.ts';
import type { Step } from './steps.ts';

/** Runs an episode with these steps up to a time; returns what was broken first. */
type Run = (steps: Step[], untilMs: number) => Promise<Violation | undefined>;

/**
 * Looks for fewer steps after which a promise of the same kind is still broken: removes parts of the list, halves first, as
 * long as it helps (delta debugging).
 */
export async function shrink(
  run: Run,
  steps: Step[],
  found: Violation,
  endMs: number,
): Promise<{ steps: Step[]; found: Violation }> {
  let best = { steps: steps.filter(({ atMs }) => atMs <= found.atMs), found };
  const tryWith = async (fewer: Step[]): Promise<boolean> => {
    const again = await run(fewer, best.found.atMs + 3_000);
    if (again?.kind !== found.kind) return false;
    best = { steps: fewer.filter(({ atMs }) => atMs <= again.atMs), found: again };
    return true;
  };
  const isWrite = ({ kind }: Step) => kind === 'write' || kind === 'refill';
  await tryWith(best.steps.filter((step) => !isWrite(step)));
  for (let size = Math.ceil(best.steps.length / 2); size >= 1 && Date.now() < endMs; ) {
    let isBetter = false;
    for (let at = best.steps.length - size; at > -size && Date.now() < endMs; at -= size) {
      const from = Math.max(0, at);
      const fewer = [...best.steps.slice(0, from), ...best.steps.slice(from + size)];
      if (fewer.length < best.steps.length && (await tryWith(fewer))) isBetter = true;
    }
    if (size === 1 && !isBetter) break;
    size = Math.max(1, Math.min(Math.floor(size / 2), Math.ceil(best.steps.length / 2)));
  }
  return best;
}
