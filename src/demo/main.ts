import { availableParallelism } from 'node:os';
import { Command } from 'commander';
import { parseWhole } from '../cli/common/arguments.ts';
import { Shutdown } from '../lib/shutdown.ts';
import { runDemo } from './run.ts';

const port = parseWhole(1, 65_535);

const program = new Command('npm run demo --')
  .description('run the service with PostgreSQL, Redis and generated hotels, without prior installation')
  .option('--hotels <n>', 'number of hotels', parseWhole(10, 10_000_000), 20_000)
  .option('--port <port>', 'public port (default: 8080, or a free port if it is in use)', port)
  .option('--admin-port <port>', 'admin port (default: 9090, or a free port if it is in use)', port)
  .option('--workers <n>', 'worker processes', parseWhole(1, 64), Math.min(8, availableParallelism()))
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse();

/** npm forwards a Ctrl-C that the terminal has also sent: a second signal within this time is the same one. */
const SAME_SIGNAL_MS = 500;

const shutdown = new Shutdown();
const { promise: ending, resolve: end } = Promise.withResolvers<{ code: number; sentence: string }>();

let isEnding = false;
void ending.then(() => {
  isEnding = true;
});
const log = (sentence: string) => isEnding || console.log(sentence);

let signalledAtMs: number | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    signalledAtMs ??= performance.now();
    end({ code: 0, sentence: 'Ending.' });
    // the guards then stop the servers and remove their files
    if (performance.now() - signalledAtMs > SAME_SIGNAL_MS) process.exit(1);
  });
}
// the terminal or the reader of a pipe may close first
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

runDemo(program.opts(), shutdown, log).then(
  (sentence) => end({ code: 1, sentence }),
  (error: Error) => end({ code: 1, sentence: `The demo failed: ${error.message}` }),
);
const { code, sentence } = await ending;
(code === 0 ? console.log : console.error)(`\n${sentence}`);
for (const fault of await shutdown.close()) console.error(`not closed cleanly: ${fault}`);
process.exit(code);
