import { readFileSync, writeFileSync } from 'node:fs';
import { Command } from 'commander';
import { Episode, type EpisodeOptions } from './episode.ts';
import { shrink } from './shrink.ts';
import type { Step } from './steps.ts';
import { watch } from './watchdog.ts';

/** Time of the wall clock between two lines of progress. */
const PROGRESS_MS = 60_000;

let running: Episode | undefined;
process.on('unhandledRejection', (error) => running?.world.fail(error));

/** Runs one episode; an error of the service or of the simulation ends it. */
async function runOne(options: EpisodeOptions): Promise<{ episode: Episode; error: unknown }> {
  const episode = new Episode(options);
  running = episode;
  const error = await episode.run(watch(options.seed)).catch((thrown) => thrown);
  return { episode, error };
}

const numberOf = (text: string) => Number.parseFloat(text);
const command = new Command('node test/sim/main.ts')
  .description(
    'run the service in virtual time; exit code 0: promises were kept, 1: one was not, 2: wrong options',
  )
  .option('--seed <n>', 'seed of the first episode', numberOf, 1)
  .option('--episodes <k>', 'number of episodes, each with the next seed (default: 1)', numberOf)
  .option('--for <time>', 'instead: episodes until this time of the wall clock is over, as 30s', numberOf)
  .option(
    '--seconds <s>',
    'simulated seconds of an episode; over 60, some are quiet, and cheap',
    numberOf,
    60,
  )
  .option('--keepgoing', 'go on after an episode that has failed')
  .option('--trace', 'print everything that happens')
  .option('--shrink <time>', 'look for fewer steps that still fail, for this time', numberOf)
  .option('--save <file>', 'write these steps')
  .option('--steps <file>', 'run these steps instead of those that the seed draws')
  .option('--mutations', 'instead: check that the seed of each mutation of the service finds it')
  .exitOverride(({ exitCode }) => process.exit(exitCode && 2));

/** Runs episodes by hand. Prints a failure at once, and a line of progress every minute. */
export async function main(args: string[]): Promise<void> {
  const options = command.parse(args, { from: 'user' }).opts();
  const { seed: first, seconds, trace: isTraced } = options;
  const beganMs = Date.now();
  const endMs = beganMs + 1_000 * (options.for ?? Infinity);
  const count = options.episodes ?? (options.for ? Infinity : 1);
  const steps: Step[] | undefined = options.steps && JSON.parse(readFileSync(options.steps, 'utf8'));
  let failed = 0;
  let done = 0;
  const progress = () => {
    const rate = ((1_000 * done * seconds) / (Date.now() - beganMs)).toFixed(1);
    return `${done} episodes, ${failed} failed, ${rate} simulated seconds a second`;
  };
  const printing = setInterval(() => {
    const { seed, nowMs } = running!.world;
    console.log(`${progress()}; now seed ${seed} at ${(nowMs / 1_000).toFixed(0)} s`);
  }, PROGRESS_MS);
  for (let seed = first; seed < first + count && Date.now() < endMs; seed++) {
    const { episode, error } = await runOne({ seed: `${seed}`, untilMs: 1_000 * seconds, isTraced, steps });
    done++;
    if (isTraced) process.stdout.write(`${episode.world.lines!.join('\n')}\n`);
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
    if (options.shrink !== undefined && violations[0]) {
      const again = async (fewer: Step[], untilMs: number) =>
        (await runOne({ seed: String(seed), untilMs, steps: fewer })).episode.checker.violations[0];
      const least = await shrink(again, episode.steps, violations[0], Date.now() + 1_000 * options.shrink);
      const { atMs, kind, text } = least.found;
      console.log(`  shrunk to ${least.steps.length} steps; ${atMs.toFixed(0)} ${kind}: ${text}`);
      for (const step of least.steps) console.log(`    ${JSON.stringify(step)}`);
      if (options.save !== undefined) writeFileSync(options.save, JSON.stringify(least.steps));
    }
    if (!options.keepgoing) break;
  }
  clearInterval(printing);
  console.log(progress());
  process.exitCode = failed > 0 ? 1 : 0;
}
