import cluster from 'node:cluster';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

// loaded before the service's own modules: on request, stops the service while its primary verifies the next message
if (cluster.isPrimary) {
  const { timingSafeEqual } = crypto;
  let isArmed = false;
  process.on('SIGUSR2', () => {
    isArmed = true;
  });
  crypto.timingSafeEqual = (one, other) => {
    // to the whole process group
    if (isArmed) process.kill(0, 'SIGSTOP');
    isArmed = false;
    return timingSafeEqual(one, other);
  };
  syncBuiltinESMExports();
}
