import cluster from 'node:cluster';

/** Longer than the time after which a silent worker is replaced. */
const SPIN_MS = 4_000;

// loaded before the service's own modules: keeps the event loop of a worker busy on request
if (cluster.isWorker) {
  process.on('SIGUSR2', () => {
    const untilMs = performance.now() + SPIN_MS;
    while (performance.now() < untilMs);
    console.log('{"level":"info","msg":"spun"}');
  });
}
