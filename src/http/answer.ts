import { type PublicError, publicErrors } from '../errors.ts';
import type { Body } from '../hotels/json-array.ts';
import type { Encoding } from './compression.ts';
import type { Tag } from './etag.ts';
import { Heads, KEEP_ALIVE } from './head.ts';

const JSON_TYPE = 'application/json';
const JSON_HEADERS = `\r\ncache-control: private, no-cache\r\nvary: accept-encoding, x-api-key${KEEP_ALIVE}`;
/** Heads of the responses of all operations. */
export const JSON_HEADS = new Heads(JSON_TYPE, JSON_HEADERS);
const ERROR_HEADS = new Map(
  Object.values(publicErrors).map((error) => [error, new Heads(JSON_TYPE, JSON_HEADERS + error.headers)]),
);

export const CLOSE = '\r\nconnection: close';

/** A response before it is written. */
export interface Answer {
  status: number;
  /** undefined: it has none, not even a length */
  body: Body | undefined;
  tag: Tag;
  encoding: Encoding | undefined;
  /** whole lines, each after a line end */
  headers: string;
  heads: Heads;
}

export function answerOf(
  status: number,
  body: Body | undefined,
  tag: Tag,
  encoding: Encoding | undefined,
  headers = '',
  heads = JSON_HEADS,
): Answer {
  return { status, body, tag, encoding, headers, heads };
}

export function errorAnswerOf(error: PublicError, headers: string): Answer {
  return answerOf(error.status, error.body, '', undefined, headers, ERROR_HEADS.get(error));
}
