/** Callback that counts looked-up keys by tier and result. */
export type CountLookups = (
  tier: 'redis' | 'postgres',
  result: 'hit' | 'absent' | 'miss',
  keys: number,
) => void;
