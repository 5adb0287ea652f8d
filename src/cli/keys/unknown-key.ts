import { Failure } from '../../lib/failure.ts';

/** Throws that no key has this id. */
export function unknownKey(id: string): never {
  throw new Failure(`There is no key with the id ${JSON.stringify(id)}. List them: hotel-api keys list`);
}
