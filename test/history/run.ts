import { Draw } from '../../src/cli/seed/draw.ts';
import { type Failure, type Outcome, runEpisode } from './episode.ts';
import { shrink } from './shrink.ts';
import { drawSteps, type Options, type Step } from './steps.ts';

interface Limits {
  /** time for episodes */
  seconds: number;
  /** additional time to shorten the steps of a failure */
  shrinkSeconds: number;
}

/** Failure with the shortest list of steps found. */
interface Found {
  seed: number;
  steps: Step[];
  failure: Failure;
}

/** Runs episodes from `seed` on until the time is over or one fails. Returns the failure and the number of comparisons. */
export async function lookFor(
  seed: number,
  options: Options,
  { seconds, shrinkSeconds }: Limits,
  log: (line: string) => void,
): Promise<{ found: Found | undefined; answers: number; episodes: number }> {
  const untilMs = performance.now() + 1_000 * seconds;
  let answers = 0;
  let episodes = 0;
  for (let next = seed; performance.now() < untilMs; next++) {
    const steps = drawSteps(new Draw(next, 0), options);
    const outcome = await runEpisode(steps, next, log);
    answers += outcome.answers;
    episodes++;
    log(announced(next, steps, outcome));
    if (!outcome.failure) continue;
    // now, because the shorter lists may take minutes
    for (const line of outcome.failure.details) log(`  ${line}`);
    const found = await shortest(next, steps, outcome.failure, shrinkSeconds, log);
    return { found, answers, episodes };
  }
  return { found: undefined, answers, episodes };
}

/** Omits steps as long as the rest fails in the same way; each list is tried twice. */
async function shortest(
  seed: number,
  steps: Step[],
  first: Failure,
  seconds: number,
  log: (line: string) => void,
): Promise<Found> {
  const untilMs = performance.now() + 1_000 * seconds;
  let failure = first;
  const fails = async (fewer: Step[]) => {
    for (let attempt = 0; attempt < 2 && performance.now() < untilMs; attempt++) {
      const outcome = await runEpisode(fewer, seed, log).catch((error: Error) => {
        log(`  ${fewer.length} steps: not run: ${error.message}`);
      });
      if (!outcome) continue;
      log(`  ${fewer.length} steps: ${outcome.failure?.sentence.slice(0, 120) ?? 'right'}`);
      if (!outcome.failure) continue;
      failure = outcome.failure;
      return true;
    }
    return false;
  };
  // steps that had not begun are irrelevant
  const begun = steps.slice(0, first.stepsBegun);
  const few = await shrink(begun, fails, () => performance.now() > untilMs);
  return { seed, steps: few, failure };
}

/** Formats a failure for the output; its sentence comes last too, in case the beginning is cut off. */
export function describe({ seed, steps, failure }: Found): string {
  return [
    failure.sentence,
    ...failure.details,
    `replay: node test/history/main.ts --seed ${seed} --episodes 1`,
    'shortest list of steps that failed (replay it with --steps FILE):',
    `[\n${steps.map((step) => `  ${JSON.stringify(step)}`).join(',\n')}\n]`,
    `seed ${seed}: ${failure.sentence}`,
  ].join('\n');
}

function announced(
  seed: number,
  steps: Step[],
  { answers, rejected, unanswered, unjudged, stallsMs, failure }: Outcome,
): string {
  const faults = steps.flatMap((step) => (step.do === 'fault' ? [step.fault] : []));
  const counts = `${answers} responses, ${rejected} rejected, ${unanswered} without response, ${unjudged} not judged, ${Math.round(stallsMs)} ms slow`;
  return `seed ${seed}: ${failure ? `WRONG: ${failure.sentence}` : 'right'}; ${counts}; ${faults.join(', ')}`;
}
