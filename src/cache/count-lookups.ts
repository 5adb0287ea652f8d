/** Is told what a tier said of the keys it was asked for. */
export type CountLookups = (
  tier: 'redis' | 'postgres',
  answer: 'hit' | 'absent' | 'miss',
  keys: number,
) => void;
