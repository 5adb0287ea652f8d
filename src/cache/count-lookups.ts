/** Is told what a tier said of the keys it was asked for. */
export type CountAnswers = (
  tier: 'redis' | 'postgres',
  answer: 'hit' | 'absent' | 'miss',
  keys: number,
) => void;
