import { MAX_KEYS } from '../cache/arena/arena.ts';
import { type ErrorCode, publicErrors } from '../errors.ts';
import { RequestId } from './parameters.ts';
import { plain } from './schemas.ts';

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const header = (description: string, schema: object, example: unknown, required = true) => ({
  description,
  required,
  schema,
  example,
});
const text = (pattern: string) => ({ type: 'string', pattern });
const rateLimit = header(
  'The rest of the limit: `r` requests, and `t` seconds until the window ends (RateLimit header fields for HTTP)',
  { type: 'string' },
  '"default";r=0;t=1',
);
const rateLimitPolicy = header(
  'The limit of the key: `q` requests in a window of `w` seconds',
  { type: 'string' },
  '"default";q=100;w=1',
);
/** Marks a header as optional, because a key may have no rate limit. */
const ifLimited = (of: typeof rateLimit) => ({
  ...of,
  description: `${of.description}. Absent if the key has no limit`,
  required: false,
});

/** Headers of responses, by their names in the document. */
export const headers = {
  RequestId: header(
    'The `x-request-id` of the request if it was well-formed, else a generated one. Quote it in fault reports',
    plain(RequestId),
    'Zk3vXy2mQ1aB000042',
  ),
  CacheControl: header(
    'Store the response, but revalidate it with `If-None-Match` before you use it again',
    { type: 'string', const: 'private, no-cache' },
    'private, no-cache',
  ),
  Vary: header(
    'Request headers that the response depends on',
    { type: 'string', const: 'accept-encoding, x-api-key' },
    'accept-encoding, x-api-key',
  ),
  ETag: header(
    'Identifies this representation. Send it as `If-None-Match` in the next request',
    text('^"[A-Za-z0-9_-]+(\\.(zstd|br|gzip))?"$'),
    '"3q2-7wAAb0cD"',
  ),
  ContentEncoding: header(
    'The coding that `Accept-Encoding` preferred, for bodies over 1 KiB. Absent if the body is not compressed',
    { type: 'string', enum: ['zstd', 'br', 'gzip'] },
    'zstd',
    false,
  ),
  Link: header(
    'The `first`, `prev`, `next` and `last` pages (RFC 8288). The last page has no `next`; `last` is named where it is known. Absent if the list is filtered by `registry_id`',
    text('^<[^>]*>; rel="first"(, <[^>]*>; rel="prev")?(, <[^>]*>; rel="next")?(, <[^>]*>; rel="last")?$'),
    '</hotels?limit=20&offset=0>; rel="first", </hotels?limit=20&offset=20>; rel="next"',
    false,
  ),
  NextLink: header(
    'The next request (RFC 8288): `next` of the body as `after`',
    text('^<[^>]*>; rel="next"$'),
    '</changes?after=Hc1dK0BzWzEsIn&limit=100&wait=0>; rel="next"',
  ),
  RetryAfter: header('Seconds to wait before a retry', { type: 'integer', minimum: 1 }, 1),
  ErrorCode: header(
    'A stable name of the error, for programs. The message may change, the code does not',
    { type: 'string', enum: Object.values(publicErrors).map(({ code }) => code) },
    'hotel_not_found',
  ),
  ErrorPosition: header(
    'If the error is about one id of a batch: the index of the first such id, from 0',
    { type: 'integer', minimum: 0, maximum: MAX_KEYS - 1 },
    3,
    false,
  ),
  WwwAuthenticate: header('The authentication scheme', { type: 'string', const: 'ApiKey' }, 'ApiKey'),
  AcceptEncoding: header(
    'The codings that request bodies may have: none',
    { type: 'string', const: 'identity' },
    'identity',
  ),
  RateLimit: rateLimit,
  RateLimitPolicy: rateLimitPolicy,
  RateLimitIfLimited: ifLimited(rateLimit),
  RateLimitPolicyIfLimited: ifLimited(rateLimitPolicy),
};

const refs = (...names: [sent: string, name: keyof typeof headers][]) =>
  Object.fromEntries(names.map(([sent, name]) => [sent, ref('headers', name)]));
const OF_ALL = refs(['x-request-id', 'RequestId'], ['Cache-Control', 'CacheControl'], ['Vary', 'Vary']);
/** Headers of every request with a valid key. */
const OF_KEYS = refs(['RateLimit', 'RateLimitIfLimited'], ['RateLimit-Policy', 'RateLimitPolicyIfLimited']);
const OF_BODIES = refs(['Content-Encoding', 'ContentEncoding']);
const OF_GET = refs(['ETag', 'ETag']);
const OF_LIST = refs(['Link', 'Link']);
const OF_CHANGES = refs(['Link', 'NextLink']);
const OF_EVERY_ERROR = refs(['x-error-code', 'ErrorCode']);
const OF_BATCH_ERRORS = refs(['x-error-position', 'ErrorPosition']);

/** Describes the successful response of an operation. */
export function success(
  kind: 'list' | 'single' | 'batch' | 'changes',
  examples: Record<string, { summary: string; value: unknown }>,
): object {
  const hotel = ref('schemas', 'Hotel');
  return {
    description: {
      list: 'The page. It is shorter than `limit` at the end of the list, and empty after the end',
      single: 'The hotel',
      batch: 'The hotels found, in the order of the request. A repeated id is answered once',
      changes: 'The next changes, in the order in which they became visible',
    }[kind],
    headers: {
      ...OF_ALL,
      ...OF_KEYS,
      ...OF_BODIES,
      ...(kind !== 'batch' && OF_GET),
      ...(kind === 'list' && OF_LIST),
      ...(kind === 'changes' && OF_CHANGES),
    },
    content: {
      'application/json': {
        schema: {
          list: { type: 'array', items: hotel },
          single: hotel,
          batch: { type: 'array', items: hotel },
          changes: ref('schemas', 'ChangePage'),
        }[kind],
        examples,
      },
    },
  };
}

/** Describes the 304 of a GET. */
export function notModified(kind: 'list' | 'single' | 'changes'): object {
  return {
    description: 'Nothing has changed: `If-None-Match` names the current representation',
    headers: {
      ...OF_ALL,
      ...OF_KEYS,
      ...OF_GET,
      ...(kind === 'list' && OF_LIST),
      ...(kind === 'changes' && OF_CHANGES),
    },
  };
}

/** Descriptions of the error statuses. */
export const MEANINGS: Record<number, string> = {
  400: 'The request or a value in it is malformed; the message says which',
  401: 'The key is missing, unknown, revoked or expired',
  403: 'The key lacks the `registry` scope',
  404: 'No hotel has the id, or the path is unknown',
  405: 'The header `Allow` lists the methods of the path',
  408: 'The request body did not arrive within 7 s, at less than 23 KB/s',
  410: 'The token is older than the service remembers, or from before all hotels were replaced',
  413: 'The request body is too large',
  415: 'The request body is compressed. Send it as it is',
  429: 'The key has used up its rate limit. Retry after the seconds of `Retry-After`',
  500: 'A fault of the service, logged with the request id',
  503: 'The service is overloaded or a dependency is unavailable. Retry after the seconds of `Retry-After`',
};
const OF_ERRORS: Record<number, object> = {
  401: refs(['WWW-Authenticate', 'WwwAuthenticate']),
  415: refs(['Accept-Encoding', 'AcceptEncoding']),
  429: refs(
    ['Retry-After', 'RetryAfter'],
    ['RateLimit', 'RateLimit'],
    ['RateLimit-Policy', 'RateLimitPolicy'],
  ),
  503: refs(['Retry-After', 'RetryAfter']),
};
/** Errors of every operation. */
const ANY_STATUS = [401, 429, 500, 503];

/** Returns the responses for these errors and those of every operation, by status. */
export function failures(codes: ErrorCode[]): Record<string, object> {
  const all = Object.keys(publicErrors) as ErrorCode[];
  const own = Map.groupBy(codes, (code) => publicErrors[code].status);
  for (const status of ANY_STATUS)
    own.set(
      status,
      all.filter((code) => publicErrors[code].status === status),
    );
  return Object.fromEntries([...own].map(([status, meant]) => [status, failure(status, meant)]));
}

function failure(status: number, codes: ErrorCode[]): object {
  const examples = Object.fromEntries(
    codes.map((name) => {
      const { code, sentence: error } = publicErrors[name];
      return [code, { summary: error, value: { error } }];
    }),
  );
  return {
    description: MEANINGS[status],
    headers: {
      ...OF_ALL,
      ...OF_EVERY_ERROR,
      ...(codes.includes('bodyNotJson') && OF_BATCH_ERRORS),
      ...(status !== 401 && OF_KEYS),
      ...OF_ERRORS[status],
    },
    content: {
      'application/json': {
        schema: ref('schemas', 'ErrorResponse'),
        ...(codes.length > 0 && { examples }),
      },
    },
  };
}
