import type { Logger } from 'pino';
import { ADDRESSES, type AddressName, watchAddressFiles } from '../config/address-files.ts';
import { type Config, readConfig } from '../config/config.ts';
import { clearTimer, every } from '../lib/clock.ts';
import { Shutdown } from '../lib/shutdown.ts';
import { Events } from '../observability/events.ts';
import { openLog } from '../observability/log.ts';
import { type Dependency, Metrics } from '../observability/metrics.ts';

/** Objects that every process of an instance has. */
export class ProcessContext {
  readonly config: Config;
  readonly shutdown = new Shutdown();
  readonly metrics = new Metrics();
  readonly log: Logger;
  readonly events: Events;
  readonly #onAddress: { name: AddressName; onChange: () => void }[] = [];

  constructor(config: Config, role: 'primary' | 'worker') {
    this.config = { ...config };
    this.log = openLog(config.LOG_LEVEL, role);
    this.events = new Events(this.log);
    const stop = watchAddressFiles(this.config, (name, isNew) => this.#useAddress(name, isNew));
    this.shutdown.push('address files', stop);
  }

  /** Calls back again and again, until the process stops. */
  repeat(callback: () => void, intervalMs: number): void {
    const timer = every(callback, intervalMs);
    this.shutdown.push('timer', () => clearTimer(timer));
  }

  /**
   * Calls back when the file of this address has changed. Later connections use the present address, and open ones may
   * be renewed. An unusable address is logged, and tried again every second.
   */
  onAddressChange(name: AddressName, onChange: () => void): void {
    this.#onAddress.push({ name, onChange });
  }

  #useAddress(name: AddressName, isNew: boolean): void {
    try {
      // another address, whose file may be faulty, stays as it is
      const others = ADDRESSES.filter((other) => other !== name);
      const kept = others.flatMap((other) => [
        [other, this.config[other]],
        [`${other}_FILE`, ''],
      ]);
      Object.assign(this.config, {
        [name]: readConfig({ ...process.env, ...Object.fromEntries(kept) })[name],
      });
    } catch (error) {
      if (isNew) this.events.addressRejected(name, (error as Error).message);
      return;
    }
    this.events.addressReloaded(name);
    for (const each of this.#onAddress) if (each.name === name) each.onChange();
  }

  /** Counts and logs the state of a circuit breaker. */
  onBreaker(dependency: Dependency): (open: boolean, reason: string) => void {
    return (open, reason) => {
      this.metrics.breaker(dependency, open);
      this.events.breaker(dependency, open, reason);
    };
  }
}
