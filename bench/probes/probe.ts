/** What a probe measured, in rounds: in each a value of ours and what it is compared with. */
export interface Probe {
  name: ProbeName;
  /** in words, with units */
  what: string;
  ours: number[];
  theirs: number[];
}

export type ProbeName = 'cold' | 'deep-page' | 'event-loop';
