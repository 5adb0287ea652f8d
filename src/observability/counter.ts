import type { Metric, Sample } from './metric.ts';

/** A label and every value that it can have. */
export type ClosedLabel<Value extends string> = readonly [name: string, values: readonly Value[]];

/**
 * A counter with at most one label, whose values are a closed set: so no request can make a series, and every
 * series is there from the start, at 0, without which the first rise would be seen by no rate. It counts in a plain
 * array: a labelled counter of prom-client costs a third of a microsecond a request.
 */
export class Counter<Value extends string = never> implements Metric {
  readonly name: string;
  readonly #help: string;
  readonly #label: ClosedLabel<Value> | undefined;
  readonly #counts: Float64Array;
  /** the place of each value's series: found faster than in an array */
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
