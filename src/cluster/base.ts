import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { MacSecret } from '../lib/mac.ts';
import { Shutdown } from '../lib/shutdown.ts';
import { Events } from '../observability/events.ts';
import { openLog } from '../observability/log.ts';
import { type Dependency, Metrics } from '../observability/metrics.ts';

/** What every process of an instance has. */
export class Base {
  readonly config: Config;
  readonly shutdown = new Shutdown();
  readonly metrics = new Metrics();
  readonly log: Logger;
  readonly events: Events;
  /** of the database, from when it was first asked */
  readonly secret = new MacSecret();

  constructor(config: Config, role: 'primary' | 'worker') {
    this.config = config;
    this.log = openLog(config.LOG_LEVEL, role);
    this.events = new Events(this.log);
  }

  /** What a breaker is to tell: it is counted and logged. */
  onBreaker(dependency: Dependency): (open: boolean, reason: string) => void {
    return (open, reason) => {
      this.metrics.breaker(dependency, open);
      this.events.breaker(dependency, open, reason);
    };
  }
}
