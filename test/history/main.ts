import { randomInt } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import { parseWhole } from '../../src/cli/common/arguments.ts';
import { bundleSources } from '../support/bundle.ts';
import { runEpisode } from './episode.ts';
import { describe, lookFor } from './run.ts';

const names = (text: string) => text.split(',').filter(Boolean);
const log = (line: string) => console.log(line);

const values = new Command('node test/history/main.ts')
  .description('search for stale and wrong responses at random; exit code 1 if one is found')
  .option('--seconds <n>', 'time until no episode begins any more', parseWhole(1, 1_000_000), 300)
  .option('--seed <n>', 'seed of the first episode (default: random)', parseWhole(0, 2 ** 31 - 1))
  .option(
    '--episodes <n>',
    'repetitions of --steps; 1 without it: the episode of the seed alone',
    parseWhole(1, 1_000),
  )
  .option('--shrink-seconds <n>', 'time to shorten the steps of a failure', parseWhole(0, 1_000_000), 900)
  .option('--without <kinds>', 'comma-separated kinds of faults that do not occur', names, [])
  .option('--only <kinds>', 'comma-separated kinds of faults that occur alone', names, [])
  .option('--steps <file>', 'run the steps of this JSON file')
  .parse()
  .opts();
const seed: number = values.seed ?? randomInt(1_000_000);
log(`seed ${seed}`);
await bundleSources();

if (values.steps) {
  const steps = JSON.parse(await readFile(values.steps, 'utf8'));
  for (let i = values.episodes ?? 1; i > 0; i--) {
    const { failure, answers } = await runEpisode(steps, seed, log);
    log(failure ? describe({ seed, steps, failure }) : `right: ${answers} answers`);
    if (failure) process.exitCode = 1;
  }
} else {
  const limits = {
    seconds: values.episodes === 1 ? 0.001 : values.seconds,
    shrinkSeconds: values.shrinkSeconds,
  };
  const options = { without: values.without, only: values.only };
  const { found, answers, episodes } = await lookFor(seed, options, limits, log);
  log(`${answers} responses compared in ${episodes} episodes`);
  if (found) {
    log(describe(found));
    process.exitCode = 1;
  }
}
// at a natural end Node 22 sometimes spins for ever: it waits for requests on handles that it closes
process.exit();
