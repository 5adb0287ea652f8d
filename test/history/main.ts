import { randomInt } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { bundleSources } from '../support/bundle.ts';
import { runEpisode } from './episode.ts';
import { describe, lookFor } from './run.ts';

/**
 * Searches for stale and wrong responses at random, until the time is over or one is found; the exit code is then 1.
 *
 *     node test/history/main.ts --seconds 3600 --seed 1
 */
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '300' },
    seed: { type: 'string' },
    episodes: { type: 'string' },
    'shrink-seconds': { type: 'string', default: '900' },
    without: { type: 'string', default: '' },
    only: { type: 'string', default: '' },
    steps: { type: 'string' },
  },
});
const names = (text: string) => text.split(',').filter(Boolean);
const say = (line: string) => console.log(line);
const seed = Number(values.seed ?? randomInt(1_000_000));
say(`seed ${seed}`);
await bundleSources();

if (values.steps) {
  const steps = JSON.parse(await readFile(values.steps, 'utf8'));
  for (let i = Number(values.episodes ?? 1); i > 0; i--) {
    const { failure, answers } = await runEpisode(steps, seed, say);
    say(failure ? describe({ seed, steps, failure }) : `right: ${answers} answers`);
    if (failure) process.exitCode = 1;
  }
} else {
  const limits = {
    seconds: values.episodes === '1' ? 0.001 : Number(values.seconds),
    shrinkSeconds: Number(values['shrink-seconds']),
  };
  const options = { without: names(values.without), only: names(values.only) };
  const { found, answers, episodes } = await lookFor(seed, options, limits, say);
  say(`${answers} responses compared in ${episodes} episodes`);
  if (found) {
    say(describe(found));
    process.exitCode = 1;
  }
}
