import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isWellFormed } from '../../src/auth/key.ts';
import { readToken } from '../../src/changes/token.ts';
import { encodingFor } from '../../src/http/compression.ts';
import { matches } from '../../src/http/etag.ts';
import { isHost } from '../../src/http/host.ts';
import { decodeParameter, readRegistryId } from '../../src/http/ids.ts';
import { hasRegistryId, readChangesQuery, readListQuery } from '../../src/http/query.ts';
import { requestIdOf } from '../../src/http/request-id.ts';
import { traceContextOf } from '../../src/http/trace-context.ts';

/** Length of each text; the HTTP library rejects longer heads. */
const BYTES = 4_096;
/** Bound of the processor time of a text, as a multiple of that of its hash, which takes a few microseconds. */
const MAX_HASHES = 60;
/** The least time of so many measurements counts: collections of garbage and compilations only add to it. */
const ROUNDS = 5;
const CALLS = 20;

/** What reads a text of a client before and after its key is known. */
const PARSERS: Record<string, (text: string) => unknown> = {
  key: isWellFormed,
  host: isHost,
  'request id': requestIdOf,
  'trace context': traceContextOf,
  'Accept-Encoding': encodingFor,
  'If-None-Match': (text) => matches(text, 'AAAA-BBBB_CC'),
  'path of a hotel': decodeParameter,
  'path of a registry id': (text) => readRegistryId(decodeParameter(text) ?? ''),
  'query of the list': (text) => [hasRegistryId(text), readListQuery(text)],
  'query of changes': readChangesQuery,
  'forged token': readToken,
};

/** Returns a token around any text, with the checksum that anyone can compute. */
function forge(text: string): string {
  const content = Buffer.from(`[1,"${text}`).toString('base64url').slice(0, BYTES);
  return hash('sha256', `change token ${content}`, 'base64url').slice(0, 8) + content;
}

/** Returns the processor time of a call in µs. */
function costOf(call: () => unknown): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const before = process.cpuUsage();
    for (let i = 0; i < CALLS; i++) call();
    const { user, system } = process.cpuUsage(before);
    return user + system;
  });
  return Math.min(...times) / CALLS;
}

const PIECES = fc.constantFrom(
  ...'%zz %zz& % %4 %ff %41 %e2%82%ac %c3 %2f \xe9 \xf0\x9f\x98\x80 + & = / // limit limit=1& after=%zz&'.split(
    ' ',
  ),
  ...'registry_id= %6cimit l r . .. ; ? 0 - 00- " "", W/" * , *, gzip ;q=0.5 gzip;q=0.1, br;q= identity a A \\ hk_'.split(
    ' ',
  ),
);
const ANY = fc.stringMatching(/^[!-~]{1,3}$/);
const UNIT = fc
  .array(fc.oneof({ weight: 3, arbitrary: PIECES }, ANY), { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join(''));
/** `r&` and the others took 5 to 700 times as long as a benign text in earlier versions. */
const COSTLY_BEFORE = ['%zz&', '&', 'r&', '*,', 'gzip;q=0.1,', '"",'];

it.each(Object.entries(PARSERS))(
  'a text of a client is read in about as much processor time as it is hashed, whatever it contains: %s',
  (what, parse) => {
    const hashed = costOf(() => hash('sha256', 'x'.repeat(BYTES)));
    fc.assert(
      fc.property(UNIT, fc.constantFrom('', 'limit=1&', 'gzip,', '"a",'), (unit, before) => {
        const filled = (before + unit.repeat(BYTES / unit.length)).slice(0, BYTES);
        const text = what === 'forged token' ? forge(filled) : filled;
        expect(costOf(() => parse(text)) / hashed, 'hashes').toBeLessThan(MAX_HASHES);
      }),
      { numRuns: 200, examples: COSTLY_BEFORE.map((unit) => [unit, '']) },
    );
  },
);
