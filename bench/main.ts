import { Command, InvalidArgumentError } from 'commander';
import { parseWhole } from '../src/cli/common/arguments.ts';
import { Shutdown } from '../src/lib/shutdown.ts';
import { checkAge } from './age.ts';
import { runColdStart } from './cold-start.ts';
import { compareCommits } from './compare.ts';
import { runMemory } from './memory.ts';
import { runMirror } from './mirror.ts';
import { PARTS, PEERS, runBenchmarks, USUAL_HOTELS } from './run.ts';
import { runSizing } from './sizing.ts';

const shutdown = new Shutdown();
const { promise: interrupted, resolve: interrupt } = Promise.withResolvers<void>();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupt());

/** Parses names separated by commas, each one of `known`. */
function parseNames(known: string[]): (text: string) => string[] {
  return (text) => {
    const names = text.split(',');
    const unknown = names.filter((name) => !known.includes(name));
    if (unknown.length > 0)
      throw new InvalidArgumentError(`not among ${known.join(', ')}: ${unknown.join(', ')}`);
    return names;
  };
}

const program = new Command('npm run bench --')
  .description('compare the service with its peers, all started on the loopback')
  // the command sizing has its own --hotels
  .enablePositionalOptions()
  .option('--quick', 'the main scenarios in two minutes; the whole run takes half an hour', false)
  .option('--only <parts>', `comma-separated, of ${PARTS.join(', ')}`, parseNames(PARTS))
  .option('--beside <servers>', `comma-separated, of ${PEERS.join(', ')} (default: all)`, parseNames(PEERS))
  .option('--hotels <n>', 'number of hotels', parseWhole(100, 10_000_000), USUAL_HOTELS)
  .option('--rounds <n>', 'measurements of each process (default: 3 to 13)', parseWhole(1, 1_000))
  .option('--out <folder>', 'folder of the results (default: bench/results)')
  .action((options) => finish(runBenchmarks(options, shutdown)));
program
  .command('compare')
  .description('compare two commits of the service, interleaved, and report changes beyond the noise')
  .argument('<a>', 'a commit, branch or tag')
  .argument('<b>', 'another; "." is the working tree')
  .option('--rounds <n>', 'number of measurements of each', parseWhole(1, 1_000), 7)
  .option('--only <scenarios>', 'comma-separated (default: the main ones)', parseNames(PARTS))
  .action((a, b, { rounds, only }) => finish(compareCommits(a, b, rounds, only, shutdown)));
program
  .command('sizing')
  .description('measure the memory of hotels in every tier, for the sizing tables')
  .option('--hotels <n>', 'number of hotels', parseWhole(2_000, 10_000_000), 50_000)
  .action(({ hotels }) => finish(runSizing(hotels, shutdown)));
program
  .command('memory')
  .description(
    'measure the memory of a worker with many hotels, then pages, batches, a restart, an UPDATE of all',
  )
  .option('--hotels <n>', 'number of hotels', parseWhole(1_000, 10_000_000), 1_000_000)
  .option('--ids <n>', 'number of hotels that are read', parseWhole(1_000, 10_000_000), 400_000)
  .option('--cache <MiB>', 'local cache of the worker', parseWhole(1, 3_072), 128)
  .action((options) => finish(runMemory(options, shutdown)));
program
  .command('mirror')
  .description('measure what mirrors cost: the first copy, pages of changes, waiting clients, writers')
  .option('--hotels <n>', 'number of hotels', parseWhole(100_000, 10_000_000), 1_000_000)
  .option('--clients <n>', 'number of waiting clients', parseWhole(1, 100_000), 5_000)
  .option('--rounds <n>', 'number of measurements of each', parseWhole(1, 7), 5)
  .option('--before <commit>', 'commit whose schema the writers are compared with')
  .action((options) => finish(runMirror(options, shutdown)));
program
  .command('cold-start')
  .description('show by second what instances answer that have just become ready')
  .option('--hotels <n>', 'number of hotels', parseWhole(10_000, 10_000_000), USUAL_HOTELS)
  .option(
    '--rate <n>',
    'batches of 1000 per second, and 0.4 of it while Redis is empty',
    parseWhole(5, 1_000),
    100,
  )
  .option('--rounds <n>', 'number of measurements of each', parseWhole(1, 100), 3)
  .action((options) => finish(runColdStart(options, shutdown)));
program
  .command('age')
  .description('fail if bench/results is older than the last change of what was measured')
  .action(() => {
    process.exitCode = checkAge() ? 0 : 1;
  });
await program.parseAsync();

async function finish(work: Promise<void>): Promise<void> {
  const code = await Promise.race([
    work.then(
      () => 0,
      (error: Error) => {
        console.error(error.stack);
        return 1;
      },
    ),
    interrupted.then(() => 130),
  ]);
  for (const fault of await shutdown.close()) console.error(`not closed cleanly: ${fault}`);
  process.exit(code);
}
