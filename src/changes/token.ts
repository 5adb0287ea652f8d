import { hash } from 'node:crypto';
import { VIEWS, type View } from '../hotels/entry.ts';
import { mayExist } from '../hotels/namespace.ts';

const FORMAT = 1;
const TOKEN_CHECKSUM_CHARACTERS = 8;

/**
 * State of a client that has applied all pages up to this token. It names only what the client has seen and grants no
 * right, so it is not signed. Its checksum detects damaged or invented tokens.
 */
export interface Token {
  /** the history of the database that `position` belongs to */
  history: string;
  /** position in the log: the client holds all changes up to it, or will at the end of the walk */
  position: number;
  /** transaction of the row of the log at that position: a database that was put back has another there, or none */
  transaction: string;
  /** view in which the client has seen the hotels */
  view: View;
  /** the last id of the walk, '' before the first; null: the walk is over */
  walkedTo: string | null;
  /** collection of the key; null: none */
  collection: string | null;
  /** whether the collection had members but did not exist */
  isOrphaned: boolean;
  /** whether the client holds one snapshot: `more` was false */
  isWhole: boolean;
}

export function writeToken(token: Token): string {
  const { history, position, transaction, view, walkedTo, collection, isOrphaned, isWhole } = token;
  const fields = [history, position, transaction, VIEWS.indexOf(view), walkedTo, collection];
  return sealed(JSON.stringify([FORMAT, ...fields, Number(isWhole), Number(isOrphaned)]));
}

/** Returns a text as a token, with the checksum that anyone can compute. */
export function sealed(content: string): string {
  const text = Buffer.from(content).toString('base64url');
  return checksumOf(text) + text;
}

/** Decodes a token; undefined if its form or its checksum is wrong. */
export function readToken(written: string): Token | undefined {
  const text = written.slice(TOKEN_CHECKSUM_CHARACTERS);
  if (text === '' || checksumOf(text) !== written.slice(0, TOKEN_CHECKSUM_CHARACTERS)) return undefined;
  try {
    return tokenOf(JSON.parse(Buffer.from(text, 'base64url').toString()));
  } catch {
    return undefined;
  }
}

function tokenOf(fields: unknown): Token | undefined {
  if (!Array.isArray(fields) || fields.length !== 9) return undefined;
  const [format, history, position, transaction, view, walkedTo, collection, ...flags] = fields;
  const isValid =
    format === FORMAT &&
    isLike(history, /^.{1,64}$/s) &&
    isCount(position) &&
    isLike(transaction, /^\d{1,20}$/) &&
    isCount(view) &&
    view < VIEWS.length &&
    (walkedTo === null || walkedTo === '' || isId(walkedTo)) &&
    (collection === null || isId(collection)) &&
    flags.every((flag) => flag === 0 || flag === 1);
  if (!isValid) return undefined;
  const [isWhole, isOrphaned] = flags.map(Boolean) as [boolean, boolean];
  return { history, position, transaction, view: VIEWS[view]!, walkedTo, collection, isWhole, isOrphaned };
}

function isLike(value: unknown, pattern: RegExp): value is string {
  return typeof value === 'string' && pattern.test(value);
}

/** Returns true for a string that may be the id of a hotel, or of a collection, which has the same bounds. */
function isId(value: unknown): value is string {
  return typeof value === 'string' && mayExist('id', value);
}

/** Returns true for an integer from 0 that a double holds exactly. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function checksumOf(text: string): string {
  return hash('sha256', `change token ${text}`, 'base64url').slice(0, TOKEN_CHECKSUM_CHARACTERS);
}
