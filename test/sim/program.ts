import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Episode, type EpisodeOptions } from './episode.ts';
import { shrink } from './shrink.ts';
import type { Step } from './steps.ts';

interface Outcome {
  episode: Episode;
  error: unknown;
}

let unhandled: ((error: unknown) => void) | undefined;
process.on('unhandledRejection', (error) => unhandled?.(error));

/** Runs one episode; an error of the service or of the simulation ends it. */
async function runOne(options: EpisodeOptions): Promise<Outcome> {
  const episode = new Episode(options);
  let error: unknown;
  unhandled = (thrown) => episode.world.fail(thrown);
  try {
    await episode.run();
  } catch (thrown) {
    error = thrown;
  }
  return { episode, error };
}

/** Runs episodes by hand; see the options. */
export async function main(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: '1' },
      episodes: { type: 'string' },
      seconds: { type: 'string', default: '60' },
      for: { type: 'string' },
      trace: { type: 'boolean', default: false },
      keepgoing: { type: 'boolean', default: false },
      shrink: { type: 'string' },
      steps: { type: 'string' },
      save: { type: 'string' },
    },
  });
  const untilMs = 1_000 * Number(values.seconds);
  const first = Number(values.seed);
  const endMs = values.for === undefined ? undefined : Date.now() + 1_000 * Number.parseFloat(values.for);
  const count = values.episodes === undefined ? (endMs ? Infinity : 1) : Number(values.episodes);
  const beganMs = Date.now();
  const steps =
    values.steps === undefined ? undefined : (JSON.parse(readFileSync(values.steps, 'utf8')) as Step[]);
  let failed = 0;
  let done = 0;
  for (let seed = first; seed < first + count && (endMs === undefined || Date.now() < endMs); seed++) {
    const { episode, error } = await runOne({ seed: String(seed), untilMs, isTraced: values.trace, steps });
    done++;
    if (values.trace) process.stdout.write(`${episode.world.lines!.join('\n')}\n`);
    const { violations, counts } = episode.checker;
    const digest = (episode.world.digest >>> 0).toString(16);
    if (error === undefined && violations.length === 0) {
      if (count === 1)
        console.log(`seed ${seed}: ${digest} ${episode.world.events} events ${JSON.stringify(counts)}`);
      continue;
    }
    failed++;
    console.log(`seed ${seed} FAILED (${digest}, ${episode.steps.length} steps)`);
    if (error) console.log(error);
    for (const { atMs, kind, text } of violations.slice(0, 3))
      console.log(`  ${atMs.toFixed(0)} ${kind}: ${text}`);
    const [first] = violations;
    if (values.shrink !== undefined && first) {
      const again = async (fewer: Step[], endsMs: number) => {
        const { episode: tried } = await runOne({ seed: String(seed), untilMs: endsMs, steps: fewer });
        return tried.checker.violations[0];
      };
      const least = await shrink(
        again,
        episode.steps,
        first,
        Date.now() + 1_000 * Number.parseFloat(values.shrink),
      );
      console.log(
        `  shrunk to ${least.steps.length} steps; ${least.found.atMs.toFixed(0)} ${least.found.kind}: ${least.found.text}`,
      );
      for (const step of least.steps) console.log(`    ${JSON.stringify(step)}`);
      if (values.save !== undefined) writeFileSync(values.save, JSON.stringify(least.steps));
    }
    if (!values.keepgoing) break;
  }
  const tookS = (Date.now() - beganMs) / 1000;
  console.log(
    `${done} episodes, ${failed} failed, ${((done * untilMs) / 1000 / tookS).toFixed(1)} simulated seconds a second`,
  );
  process.exitCode = failed > 0 ? 1 : 0;
}
