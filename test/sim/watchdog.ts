import { Worker } from 'node:worker_threads';

/** Seconds of the wall clock after which an event counts as endless. */
const ENDLESS_S = 60;

// what loops without an event lets no timer of its own thread run
const SOURCE = `
  const { workerData: { cells } } = require('node:worker_threads');
  let seen = -1;
  let still = 0;
  setInterval(() => {
    still = cells[0] === seen ? still + 1 : 0;
    seen = cells[0];
    if (still < ${ENDLESS_S}) return;
    require('node:fs').writeSync(2, 'seed ' + cells[1] + ' FAILED: an event does not end\\n');
    process.kill(process.pid, 'SIGKILL');
  }, 1_000);
`;

let cells: BigInt64Array | undefined;

/** Ends this program with a message if an episode stands still from now on. Returns what reports its progress. */
export function watch(seed: string): () => void {
  if (!cells) {
    cells = new BigInt64Array(new SharedArrayBuffer(16));
    new Worker(SOURCE, { eval: true, workerData: { cells }, execArgv: [] }).unref();
  }
  const counted = cells;
  counted[1] = BigInt(seed);
  return () => {
    counted[0]! += 1n;
  };
}
