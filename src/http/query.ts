import type { ErrorCode } from '../errors.ts';
import { readRegistryId } from './ids.ts';

export const MIN_LIMIT = 1;
export const MAX_LIMIT = 100;
export const DEFAULT_LIMIT = 20;
export const DEFAULT_OFFSET = 0;

/** What a list request asks for. */
export interface ListQuery {
  limit: number;
  /** at most 2^53-1: past it no list goes */
  offset: number;
  /** undefined: no filter */
  registryId: string | undefined;
}

/** True when the list is filtered by registry id: that needs the scope, whatever the value. */
export function asksForRegistryId(parameters: Map<string, string | undefined>): boolean {
  return parameters.has('registry_id');
}

/** Reads the parameters of a list request; or what is wrong with them. */
export function readListQuery(parameters: Map<string, string | undefined>): ListQuery | { error: ErrorCode } {
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

/**
 * Parses a raw query string. Of a repeated parameter the first counts; a value that cannot be decoded
 * is undefined, a name that cannot be decoded is no parameter of ours.
 */
export function parseQuery(query: string): Map<string, string | undefined> {
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

function readCount(
  parameters: Map<string, string | undefined>,
  name: string,
  fallback: number,
): number | undefined {
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
