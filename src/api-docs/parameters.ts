import { MAX_CHANGES } from '../changes/change-log.ts';
import { INTEGER } from '../http/ids.ts';
import {
  DEFAULT_CHANGES,
  DEFAULT_LIMIT,
  DEFAULT_OFFSET,
  DEFAULT_WAIT_S,
  MAX_LIMIT,
  MAX_WAIT_S,
  MIN_LIMIT,
} from '../http/query.ts';
import { WELL_FORMED } from '../http/request-id.ts';

/** A hotel id or channel id in a path. An id longer than any hotel's matches nothing. */
export const PathId = { type: 'string', minLength: 1 };
/** A registry id: any integer; those beyond 64 bits match nothing. */
export const RegistryId = { type: 'integer', format: 'int64' };
export const RegistryIdText = { type: 'string', pattern: INTEGER.source };

export const RequestId = { type: 'string', pattern: WELL_FORMED.source };

export const ListParameters = {
  limit: {
    type: 'integer',
    minimum: MIN_LIMIT,
    maximum: MAX_LIMIT,
    default: DEFAULT_LIMIT,
    description: 'Maximum number of hotels to return',
  },
  offset: {
    type: 'integer',
    minimum: 0,
    default: DEFAULT_OFFSET,
    description: 'Number of hotels to skip. The `Link` header of a response names the next page',
  },
  registry_id: {
    ...RegistryId,
    description:
      'Only the hotel with this registry id: a list of one hotel, or an empty list. Requires the `registry` scope',
  },
};

export const ChangesParameters = {
  after: {
    type: 'string',
    minLength: 1,
    description:
      'The `next` of the last response that you applied. Without it, the responses begin with all hotels',
  },
  limit: {
    type: 'integer',
    minimum: MIN_LIMIT,
    maximum: MAX_CHANGES,
    default: DEFAULT_CHANGES,
    description: 'Maximum number of changes to return',
  },
  wait: {
    type: 'integer',
    minimum: 0,
    maximum: MAX_WAIT_S,
    default: DEFAULT_WAIT_S,
    description:
      'Seconds to wait for the first change if there is none yet. The response without changes comes after this time',
  },
};
