import type { Counter, Gauge, Registry } from 'prom-client';

type Labels = Record<string, string | number>;
export const NO_LABELS: Labels = {};
/** Metrics by name: what they are, and their value, or a value for each set of labels. */
type Sources = Record<string, [help: string, read: () => number | Iterable<[Labels, number]>]>;

/**
 * Registers metrics of one kind that are read at a scrape. `labels` are those of single values; of several values, each has
 * labels of the same names.
 */
export function readAtScrape(
  registry: Registry,
  kind: typeof Counter | typeof Gauge,
  labels: Labels,
  sources: Sources,
): void {
  for (const [name, [help, read]] of Object.entries(sources))
    new kind({
      name,
      help,
      labelNames: Object.keys(labels),
      registers: [registry],
      collect() {
        const values = read();
        this.reset();
        for (const [named, value] of typeof values === 'number' ? [[labels, values] as const] : values)
          this.inc(named, value);
      },
    });
}
