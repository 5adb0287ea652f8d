import type { Metric, Sample } from './metric.ts';

/**
 * Counts observations of numbered series in plain arrays, which are exported when they are scraped. A labelled
 * histogram of prom-client costs microseconds per observation.
 */
export class Histogram implements Metric {
  readonly name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #labelsOf: (place: number) => Sample['labels'];
  /** by series: the count of each bucket, one more for values above the last bound, and the sum */
  readonly #cells = new Map<number, Float64Array>();

  /** `bounds`: rising upper bounds of the buckets; `labelsOf`: the labels of a series. */
  constructor(
    name: string,
    help: string,
    bounds: readonly number[],
    labelsOf: (place: number) => Sample['labels'],
  ) {
    this.name = name;
    this.#help = help;
    this.#bounds = bounds;
    this.#labelsOf = labelsOf;
  }

  count(place: number, value: number): void {
    this.add(this.open(place), value);
  }

  /** Adds an observation to the cell that `open` returned. */
  add(cell: Float64Array, value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
    cell[bucket]!++;
    cell[bounds.length + 1]! += value;
  }

  /** Exports a series from now on, starting at 0, so that rates see its first increase. */
  open(place: number): Float64Array {
    let cell = this.#cells.get(place);
    if (cell) return cell;
    cell = new Float64Array(this.#bounds.length + 2);
    this.#cells.set(place, cell);
    return cell;
  }

  get() {
    const values: Sample[] = [];
    const { length } = this.#bounds;
    for (const [place, cell] of this.#cells) {
      const labels = this.#labelsOf(place);
      let count = 0;
      for (let i = 0; i <= length; i++) {
        count += cell[i]!;
        const le = i < length ? this.#bounds[i]! : '+Inf';
        values.push({ metricName: `${this.name}_bucket`, labels: { ...labels, le }, value: count });
      }
      values.push({ metricName: `${this.name}_sum`, labels, value: cell[length + 1]! });
      values.push({ metricName: `${this.name}_count`, labels, value: count });
    }
    return { name: this.name, help: this.#help, type: 'histogram', aggregator: 'sum' as const, values };
  }
}
