import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Episode, type EpisodeOptions } from './episode.ts';
import { shrink } from './shrink.ts';
import type { Step } from './steps.ts';
import { watch } from './watchdog.ts';

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
  const progress = watch(options.seed);
  unhandled = (thrown) => episode.world.fail(thrown);
  try {
    await episode.run(progress);
  } catch (thrown) {
    error = thrown;
  }
  return { episode, error };
}

const USAGE = `Usage: node test/sim/main.ts [options]

  --seed N         seed of the first episode (1)
  --episodes K     number of episodes, each with the next seed (1)
  --for 30s        instead: episodes until this time of the wall clock is over
  --seconds S      simulated seconds of an episode (60); a longer one has quiet times, which cost little
  --keepgoing      goes on after an episode that has failed
  --trace          prints everything that happens
  --shrink 60s     looks for fewer steps after which a failure is still found, for this time
  --save FILE      writes these steps
  --steps FILE     runs these steps instead of those that the seed draws
  --mutations      instead: holds the simulation to its mutations of the service, each with its seed

Exit code: 0 if every promise was kept, 1 if one was broken, 2 for wrong options.`;

function optionsOf(args: string[]) {
  const text = (value: string) => ({ type: 'string', default: value }) as const;
  const optional = { type: 'string' } as const;
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    args,
    options: {
      ...{ seed: text('1'), episodes: optional, seconds: text('60'), for: optional, trace: flag },
      ...{ keepgoing: flag, shrink: optional, steps: optional, save: optional, help: flag },
    },
  });
  return values;
}

/** Runs episodes by hand; see the usage. */
export async function main(args: string[]): Promise<void> {
  let values: ReturnType<typeof optionsOf>;
  try {
    values = optionsOf(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  if (values.help) return console.log(USAGE);
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
