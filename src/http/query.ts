import { MAX_CHANGES } from '../changes/change-log.ts';
import { readToken, type Token } from '../changes/token.ts';
import type { ErrorCode } from '../errors.ts';
import { readRegistryId } from './ids.ts';

export const MIN_LIMIT = 1;
export const MAX_LIMIT = 100;
export const DEFAULT_LIMIT = 20;
export const DEFAULT_OFFSET = 0;

export const DEFAULT_CHANGES = 100;
export const MAX_WAIT_S = 30;
export const DEFAULT_WAIT_S = 0;

/** The first value of each parameter by name; undefined: it cannot be decoded. */
type QueryParameters = Map<string, string | undefined>;

export interface ChangesQuery {
  /** undefined: from the beginning */
  token: Token | undefined;
  limit: number;
  waitS: number;
}

interface ListQuery {
  limit: number;
  /** at most 2^53-1 */
  offset: number;
  /** undefined: no filter */
  registryId: string | undefined;
}

/** Returns true if the list is filtered by registry id, which needs the scope whatever the value. */
export function hasRegistryId(parameters: QueryParameters): boolean {
  return parameters.has('registry_id');
}

export function readListQuery(parameters: QueryParameters): ListQuery | { error: ErrorCode } {
  const registryId = parameters.has('registry_id')
    ? readRegistryId(parameters.get('registry_id') ?? '')
    : undefined;
  if (parameters.has('registry_id') && registryId === undefined) return { error: 'registryIdNotInteger' };
  const limit = readCount(parameters, 'limit', DEFAULT_LIMIT);
  if (limit === undefined || limit < MIN_LIMIT || limit > MAX_LIMIT) return { error: 'limitOutOfBounds' };
  const offset = readCount(parameters, 'offset', DEFAULT_OFFSET);
  if (offset === undefined) return { error: 'offsetOutOfBounds' };
  return { limit, offset, registryId };
}

export function readChangesQuery(parameters: QueryParameters): ChangesQuery | { error: ErrorCode } {
  const token = parameters.has('after') ? readToken(parameters.get('after') ?? '') : undefined;
  if (parameters.has('after') && token === undefined) return { error: 'afterNotToken' };
  const limit = readCount(parameters, 'limit', DEFAULT_CHANGES);
  if (limit === undefined || limit < MIN_LIMIT || limit > MAX_CHANGES)
    return { error: 'changesLimitOutOfBounds' };
  const waitS = readCount(parameters, 'wait', DEFAULT_WAIT_S);
  if (waitS === undefined || waitS > MAX_WAIT_S) return { error: 'waitOutOfBounds' };
  return { token, limit, waitS };
}

/**
 * Parses a raw query string. The first of a repeated parameter counts. A value that cannot be decoded is undefined; a
 * name that cannot be decoded is ignored.
 */
export function parseQuery(query: string): QueryParameters {
  const parameters = new Map<string, string | undefined>();
  if (query === '') return parameters;
  for (const part of query.split('&')) {
    const equals = part.indexOf('=');
    const name = decode(equals < 0 ? part : part.slice(0, equals));
    if (name !== undefined && !parameters.has(name)) {
      parameters.set(name, equals < 0 ? '' : decode(part.slice(equals + 1)));
    }
  }
  return parameters;
}

function readCount(parameters: QueryParameters, name: string, fallback: number): number | undefined {
  if (!parameters.has(name)) return fallback;
  const text = parameters.get(name);
  if (text === undefined || !/^\d+$/.test(text)) return undefined;
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER);
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
