import type { BatchLookup } from '../cache/arena/batch-lookup.ts';
import type { ErrorCode } from '../errors.ts';
import type { Namespace } from '../hotels/namespace.ts';

const OF_ELEMENTS: readonly (ErrorCode | undefined)[] = [
  'idNotString',
  'channelIdNotString',
  'registryIdNotInteger',
];
/** Errors of bodies, by the negative of the status of a lookup. */
const ERRORS: Record<Namespace, readonly (ErrorCode | undefined)[]> = {
  id: [undefined, 'bodyNotJson', 'idsMissing', 'tooManyIds', 'idNotString'],
  channel: [undefined, 'bodyNotJson', 'channelIdsMissing', 'tooManyChannelIds', 'channelIdNotString'],
  registry: [undefined, 'bodyNotJson', 'registryIdsMissing', 'tooManyRegistryIds', 'registryIdNotInteger'],
};

/** Returns the error of a batch's body, with the index of the first wrong element; undefined if it has none. */
export function bodyErrorOf(
  namespace: Namespace,
  { status, wrongIndex }: BatchLookup,
): { error: ErrorCode; index?: number | undefined } | undefined {
  const error = ERRORS[namespace][-status];
  return error && { error, index: OF_ELEMENTS.includes(error) ? wrongIndex : undefined };
}
