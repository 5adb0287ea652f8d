import cluster, { Worker } from 'node:cluster';

// loaded before the service's own modules: on request, stops the service between a poll of the log and its application
if (cluster.isPrimary) {
  const { send } = Worker.prototype;
  let isArmed = false;
  process.on('SIGUSR2', () => {
    isArmed = true;
  });
  Worker.prototype.send = function (this: Worker, ...parameters: Parameters<typeof send>) {
    // to the whole process group
    if (isArmed && (parameters[0] as unknown as { type?: string }).type === 'log') {
      isArmed = false;
      process.kill(0, 'SIGSTOP');
    }
    return send.apply(this, parameters);
  } as typeof send;
}
