import { Command, InvalidArgumentError } from 'commander';
import { parseWhole } from '../src/cli/arguments.ts';
import { Lifecycle } from '../src/lifecycle.ts';
import { compareCommits } from './compare.ts';
import { PARTS, runBenchmarks } from './run.ts';
import { runSizing } from './sizing.ts';

const lifecycle = new Lifecycle();
const { promise: interrupted, resolve: interrupt } = Promise.withResolvers<void>();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupt());

function readParts(text: string): string[] {
  const parts = text.split(',');
  const unknown = parts.filter((part) => !PARTS.includes(part));
  if (unknown.length > 0)
    throw new InvalidArgumentError(`not among ${PARTS.join(', ')}: ${unknown.join(', ')}`);
  return parts;
}

const program = new Command('npm run bench --')
  .description('the service beside its peers, with all that is needed started on the loopback')
  .option('--quick', 'the main scenarios in two minutes; the whole run takes up to fifteen', false)
  .option('--only <parts>', `comma-separated, of ${PARTS.join(', ')}`, readParts)
  .action(({ quick, only }) => finish(runBenchmarks({ quick, only }, lifecycle)));
program
  .command('compare')
  .description('two commits of the service interleaved, and what changed beyond the noise')
  .argument('<a>', 'a commit, branch or tag')
  .argument('<b>', 'another; "." is the working tree as it stands')
  .option('--rounds <n>', 'how often each is measured', parseWhole(1, 1_000), 7)
  .action((a, b, { rounds }) => finish(compareCommits(a, b, rounds, lifecycle)));
program
  .command('sizing')
  .description('what hotels take in every tier, and the tables from which machines are chosen')
  .option('--hotels <n>', 'how many', parseWhole(2_000, 10_000_000), 50_000)
  .action(({ hotels }) => finish(runSizing(hotels, lifecycle, console.error)));
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
  for (const fault of await lifecycle.close()) console.error(`not ended in order: ${fault}`);
  process.exit(code);
}
