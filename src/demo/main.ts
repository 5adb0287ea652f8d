import { availableParallelism } from 'node:os';
import { Command } from 'commander';
import { parseWhole } from '../cli/arguments.ts';
import { Shutdown } from '../lib/shutdown.ts';
import { runDemo } from './run.ts';

const port = parseWhole(1, 65_535);

const program = new Command('npm run demo --')
  .description('the service with PostgreSQL, Redis and made-up hotels, with nothing installed beforehand')
  .option('--hotels <n>', 'how many hotels', parseWhole(10, 10_000_000), 20_000)
  .option('--port <port>', 'public port (default: 8080, or another where that is taken)', port)
  .option('--admin-port <port>', 'admin port (default: 9090, or another where that is taken)', port)
  .option('--workers <n>', 'worker processes', parseWhole(1, 64), Math.min(8, availableParallelism()))
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse();

/** npm passes a Ctrl-C on that the terminal has sent us already: what comes so soon is the same one. */
const SAME_SIGNAL_MS = 500;

const shutdown = new Shutdown();
const { promise: ending, resolve: end } = Promise.withResolvers<{ code: number; sentence: string }>();

let isEnding = false;
void ending.then(() => {
  isEnding = true;
});
const say = (sentence: string) => isEnding || console.log(sentence);

let signalledAtMs: number | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    signalledAtMs ??= performance.now();
    end({ code: 0, sentence: 'Ending.' });
    // the guards of the servers end them and remove their files when we are gone
    if (performance.now() - signalledAtMs > SAME_SIGNAL_MS) process.exit(1);
  });
}
// the terminal or the reader of a pipe may be gone before us
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

runDemo(program.opts(), shutdown, say).then(
  (sentence) => end({ code: 1, sentence }),
  (error: Error) => end({ code: 1, sentence: `The demo cannot go on: ${error.message}` }),
);
const { code, sentence } = await ending;
(code === 0 ? console.log : console.error)(`\n${sentence}`);
for (const fault of await shutdown.close()) console.error(`not ended in order: ${fault}`);
process.exit(code);
