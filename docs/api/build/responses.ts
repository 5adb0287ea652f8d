import { type ErrorCode, publicErrors } from '../../../src/errors.ts';
import { MAX_KEYS } from '../../../src/wasm/constants.ts';
import { plain, RequestId } from './schemas.ts';

export const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const header = (description: string, schema: object, example: unknown, required = true) => ({
  description,
  required,
  schema,
  example,
});
/** Describes a header that has always the same value. */
const constant = (description: string, value: string) =>
  header(description, { type: 'string', const: value }, value);
const text = (pattern: string) => ({ type: 'string', pattern });
/** Headers of responses, by their names. */
export const headers = {
  'x-request-id': header(
    'The `x-request-id` of the request if it was well-formed, else a generated one. Quote it in fault reports',
    plain(RequestId),
    'Zk3vXy2mQ1aB000042',
  ),
  'Cache-Control': constant(
    'Store the response, but revalidate it with `If-None-Match` before you use it again',
    'private, no-cache',
  ),
  Vary: constant('Request headers that the response depends on', 'accept-encoding, x-api-key'),
  ETag: header(
    'Identifies this representation. Send it as `If-None-Match` in the next request',
    text('^(W/)?"[!#-~]+"$'),
    '"3q2-7wAAb0cD"',
  ),
  'Content-Encoding': header(
    'The coding that `Accept-Encoding` preferred, for bodies over 1 KiB. Absent if the body is not compressed',
    { type: 'string', enum: ['zstd', 'br', 'gzip'] },
    'zstd',
    false,
  ),
  Link: header(
    'The `first`, `prev`, `next` and `last` pages of a list (RFC 8288). The last page has no `next`; `last` is named where it is known. Absent if the list is filtered by `registry_id`. For changes, the next request: `next` of the body as `after`. ' +
      'The links are relative to the address of the request, or absolute if the operator has set a public address',
    text('^<[^>]*>; rel="(first|next)"(, <[^>]*>; rel="(prev|next|last)")*$'),
    '<?limit=20&offset=0>; rel="first", <?limit=20&offset=20>; rel="next"',
    false,
  ),
  'Retry-After': header('Seconds to wait before a retry', { type: 'integer', minimum: 1 }, 1),
  'x-error-code': header(
    'A stable name of the error, for programs. The message may change, the code does not. Codes may be added',
    text('^[a-z0-9_]+$'),
    'hotel_not_found',
  ),
  'x-error-position': header(
    'If the error is about one id of a batch: the index of the first such id, from 0',
    { type: 'integer', minimum: 0, maximum: MAX_KEYS - 1 },
    3,
    false,
  ),
  'WWW-Authenticate': constant('The authentication scheme', 'ApiKey'),
  'Accept-Encoding': constant('The codings that request bodies may have: none', 'identity'),
  RateLimit: header(
    'The rest of the limit: `r` requests, and `t` seconds until the window ends (RateLimit header fields for HTTP). Absent if the key has no limit or was not read',
    { type: 'string' },
    '"default";r=0;t=1',
    false,
  ),
  'RateLimit-Policy': header(
    'The limit of the key: `q` requests in a window of `w` seconds. Absent if the key has no limit or was not read',
    { type: 'string' },
    '"default";q=100;w=1',
    false,
  ),
};

/** Returns references to these headers. */
export const refs = (...names: (keyof typeof headers)[]) =>
  Object.fromEntries(names.map((name) => [name, ref('headers', name)]));
const COMMON_HEADERS = refs('x-request-id', 'Cache-Control', 'Vary');
/** Headers of the responses to a key with a rate limit. */
const OF_KEYS = refs('RateLimit', 'RateLimit-Policy');

/** Kind of an operation. */
export interface Kind {
  /** of its successful response */
  description: string;
  schema: object;
  /** headers of its 200 and 304 that others lack */
  headers: Record<string, object>;
  /** errors of these operations, besides those of all */
  errors: readonly ErrorCode[];
}

/** Describes the successful response of an operation. */
export function success({ description, headers, schema }: Kind, examples: object): object {
  return {
    description,
    headers: { ...COMMON_HEADERS, ...OF_KEYS, ...refs('Content-Encoding'), ...headers },
    content: { 'application/json': { schema, examples } },
  };
}

/** Describes the 304 of a GET. */
export function notModified({ headers }: Kind): object {
  return {
    description: 'Nothing has changed: `If-None-Match` names the current representation',
    headers: { ...COMMON_HEADERS, ...OF_KEYS, ...headers },
  };
}

/** Descriptions of the error statuses. */
const MEANINGS: Record<number, string> = {
  400: 'The request or a value in it is malformed; the message says which',
  401: 'The key is missing, unknown, revoked or expired',
  403: 'The key lacks the `registry` scope',
  404: 'The key sees no hotel with the id, or the path is unknown',
  408: 'The request body came slower than 160 KiB per 7 s',
  410: 'The token is no longer valid. Begin again without `after`',
  413: 'The request body is too large',
  415: 'The request body is compressed. Send it as it is',
  429: 'The key has used up its rate limit. Retry after the seconds of `Retry-After`',
  500: 'A fault of the service, logged with the request id',
  503: 'The service is overloaded or a dependency is unavailable. Retry after the seconds of `Retry-After`',
};
const OF_STATUS: Record<number, object> = {
  401: refs('WWW-Authenticate'),
  415: refs('Accept-Encoding'),
  429: refs('Retry-After'),
  503: refs('Retry-After'),
};
/** Errors of every operation. */
const OF_EVERY_OPERATION = (Object.keys(publicErrors) as ErrorCode[]).filter((code) =>
  [401, 429, 500, 503].includes(publicErrors[code].status),
);

/** Returns the responses for these errors and those of every operation, by status. */
export function failures(codes: ErrorCode[]): Record<string, object> {
  const byStatus = Map.groupBy([...codes, ...OF_EVERY_OPERATION], (code) => publicErrors[code].status);
  return Object.fromEntries([...byStatus].map(([status, meant]) => [status, failure(status, meant)]));
}

function failure(status: number, codes: ErrorCode[]): object {
  const examples = Object.fromEntries(
    codes.map((name) => {
      const { code, message: error } = publicErrors[name];
      return [code, { summary: error, value: { error } }];
    }),
  );
  return {
    description: MEANINGS[status],
    headers: {
      ...COMMON_HEADERS,
      ...refs('x-error-code'),
      ...(codes.includes('bodyNotJson') && refs('x-error-position')),
      ...(status !== 401 && OF_KEYS),
      ...OF_STATUS[status],
    },
    content: { 'application/json': { schema: ref('schemas', 'ErrorResponse'), examples } },
  };
}
