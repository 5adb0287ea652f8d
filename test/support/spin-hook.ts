import cluster from 'node:cluster';

/** Longer than a worker may get nothing done. */
const SPIN_MS = 4_000;

// loaded before the service's own modules: a worker that is told to keeps its event loop busy
if (cluster.isWorker) {
  process.on('SIGUSR2', () => {
    const untilMs = performance.now() + SPIN_MS;
    while (performance.now() < untilMs);
    console.log('{"level":"info","msg":"spun"}');
  });
}
