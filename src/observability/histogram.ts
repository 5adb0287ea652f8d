import type { Metric, Sample } from './metric.ts';

/**
 * A Prometheus histogram whose series are numbered places. It counts in plain arrays, which are handed over when
 * they are scraped: a labelled histogram of prom-client costs microseconds an observation.
 */
export class Histogram implements Metric {
  readonly name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #labelsOf: (place: number) => Sample['labels'];
  /** by place: the count of each bucket, one more for those past the last, and the sum */
  readonly #cells = new Map<number, Float64Array>();

  /** `bounds`: the upper bounds of the buckets, rising; `labelsOf`: the labels of a place. */
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

  /** Counts in the cell of a place, as `open` returned it. */
  add(cell: Float64Array, value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
    cell[bucket]!++;
    cell[bounds.length + 1]! += value;
  }

  /** Exports a place from now on, at 0 at first: what appears with its first rise, a rate does not see rise. */
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
