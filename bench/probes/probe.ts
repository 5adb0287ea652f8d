/** Result of a probe: in each round our value and the one it is compared with. */
export interface Probe {
  name: ProbeName;
  /** description with units */
  what: string;
  ours: number[];
  theirs: number[];
}

export type ProbeName =
  | 'cold'
  | 'collection-batch'
  | 'collection-get'
  | 'collection-list'
  | 'deep-page'
  | 'event-loop'
  | 'hidden-batch'
  | 'hidden-get'
  | 'partial-cache-batch'
  | 'partial-cache-zipf'
  | 'partial-cache-get';
