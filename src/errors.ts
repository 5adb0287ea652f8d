/**
 * Every error that a client can get: name → status, message. Bodies and headers are encoded once. The messages of the
 * specification and the contract are verbatim. A name in snake_case is the error's code and never changes.
 */
const table = {
  registryIdNotInteger: [400, 'registry_id must be an integer'],
  limitOutOfBounds: [400, 'limit must be an integer from 1 to 100'],
  changesLimitOutOfBounds: [400, 'limit must be an integer from 1 to 1000'],
  waitOutOfBounds: [400, 'wait must be an integer from 0 to 30'],
  afterNotToken: [400, 'after must be a token that this API gave'],
  offsetOutOfBounds: [400, 'offset must be an integer of at least 0'],
  bodyNotJson: [400, 'Request body must be valid JSON'],
  idsMissing: [400, 'Request body must include an `ids` array'],
  channelIdsMissing: [400, 'Request body must include a `channel_ids` array'],
  registryIdsMissing: [400, 'Request body must include a `registry_ids` array'],
  idNotString: [400, 'ids must hold strings only'],
  channelIdNotString: [400, 'channel_ids must hold strings only'],
  tooManyIds: [400, 'ids must hold at most 1000 ids'],
  tooManyChannelIds: [400, 'channel_ids must hold at most 1000 ids'],
  tooManyRegistryIds: [400, 'registry_ids must hold at most 1000 ids'],
  bodyNotAllowed: [400, 'GET requests must not carry a body'],
  hostInvalid: [400, 'Request must name its host in one valid Host header'],
  framingAmbiguous: [400, 'Request must state in one way where its body ends'],
  unauthorized: [401, 'Unauthorized'],
  forbidden: [403, 'Forbidden'],
  hotelNotFound: [404, 'Hotel not found'],
  pathNotFound: [404, 'Not found'],
  methodNotAllowed: [405, 'Method not allowed'],
  bodyTooSlow: [408, 'Request body arrived too slowly'],
  tokenExpired: [410, 'The token has expired: begin again without after'],
  bodyTooLarge: [413, 'Request body must be at most 1 MiB'],
  contentEncodingNotSupported: [415, 'Request body must be sent without Content-Encoding'],
  tooManyRequests: [429, 'Too many requests'],
  internal: [500, 'Internal server error'],
  unavailable: [503, 'Service unavailable'],
} as const satisfies Record<string, readonly [status: number, message: string]>;

export type ErrorCode = keyof typeof table;

/** Headers of errors besides their code, by status. */
const HEADERS_BY_STATUS: Record<number, string> = {
  401: '\r\nwww-authenticate: ApiKey',
  415: '\r\naccept-encoding: identity',
  503: '\r\nretry-after: 1',
};

/** An error response: HTTP status, headers and JSON body. */
export interface PublicError {
  /** value of `x-error-code`, in snake_case */
  readonly code: string;
  readonly status: number;
  readonly message: string;
  /** whole lines, each after a line end */
  readonly headers: string;
  readonly body: Buffer;
}

export const publicErrors = Object.fromEntries(
  Object.entries(table).map(([name, [status, message]]) => {
    const code = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const headers = `\r\nx-error-code: ${code}${HEADERS_BY_STATUS[status] ?? ''}`;
    return [name, { code, status, message, headers, body: Buffer.from(JSON.stringify({ error: message })) }];
  }),
) as Readonly<Record<ErrorCode, PublicError>>;

/** Reasons of rejected requests, as they are counted. */
export const REJECTIONS = [
  'overload',
  'rate_limit',
  'unknown_key_limit',
  'postgres_unavailable',
  'postgres_queue',
  'postgres_timeout',
  'postgres_locked',
] as const;
export type Rejection = (typeof REJECTIONS)[number];

/**
 * Error of a request that cannot be answered in time, because a dependency is unavailable or a queue is full: 503.
 */
export class Unavailable extends Error {
  override name = 'Unavailable';
  readonly rejection: Rejection;

  constructor(message: string, rejection: Rejection, options?: ErrorOptions) {
    super(message, options);
    this.rejection = rejection;
  }
}

/**
 * Returns true if the dependency rejected the request or answered nothing at all. False if it answers others, and only this
 * request was late or found no room.
 */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof Unavailable)) return false;
  return error.rejection === 'postgres_unavailable' || error.cause !== undefined;
}

/** Returns true if PostgreSQL answers others, and was late with this query. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Unavailable && error.rejection === 'postgres_timeout';
}

/** Returns true if the share of a key in the queue for PostgreSQL is used up. */
export function isQueueFull(error: unknown): boolean {
  return error instanceof Unavailable && error.rejection === 'postgres_queue';
}
