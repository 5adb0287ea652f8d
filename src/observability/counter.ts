import type { Metric, Sample } from './metric.ts';

/** Label of a metric with all its possible values. */
export type ClosedLabel<Value extends string> = readonly [name: string, values: readonly Value[]];

/**
 * Counts by at most one label with a closed set of values. No request can create a series, and every series starts at
 * 0, so rates see its first increase. It uses a plain array: a labelled counter of prom-client costs 0.3 µs per
 * request.
 */
export class Counter<Value extends string = never> implements Metric {
  readonly name: string;
  readonly #help: string;
  readonly #label: ClosedLabel<Value> | undefined;
  readonly #counts: Float64Array;
  /** index of the series by label value */
  readonly #places: ReadonlyMap<Value, number>;

  constructor(name: string, help: string, label?: ClosedLabel<Value>) {
    this.name = name;
    this.#help = help;
    this.#label = label;
    this.#counts = new Float64Array(label?.[1].length ?? 1);
    this.#places = new Map(label?.[1].map((value, i) => [value, i]));
  }

  /** Adds to the series of this value, which must be one of the label's. */
  add(by: number, value?: Value): void {
    this.#counts[value === undefined ? 0 : this.#places.get(value)!]! += by;
  }

  get() {
    const values = Array.from(this.#counts, (value, place) => ({ labels: this.#labelsOf(place), value }));
    return { name: this.name, help: this.#help, type: 'counter', aggregator: 'sum' as const, values };
  }

  #labelsOf(place: number): Sample['labels'] {
    return this.#label ? { [this.#label[0]]: this.#label[1][place]! } : {};
  }
}
