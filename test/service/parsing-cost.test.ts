import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isWellFormed } from '../../src/auth/key.ts';
import { CacheArena } from '../../src/cache/arena/arena.ts';
import { CacheMemory } from '../../src/cache/memory.ts';
import { readToken, sealed } from '../../src/changes/token.ts';
import type { Namespace } from '../../src/hotels/namespace.ts';
import { bodyErrorOf } from '../../src/http/operations.ts';
import { decodeParameter, readChangesQuery, readListQuery, readRegistryId } from '../../src/http/query.ts';
import {
  encodingFor,
  isHost,
  matches,
  requestIdOf,
  traceContextOf,
} from '../../src/http/received-request.ts';

/** Length of each text of a head; the HTTP library rejects longer heads. */
const HEAD_BYTES = 4_096;
/** Length of each body: if a member took time in proportion to those before it, a body would take 1,000 hashes. */
const BODY_BYTES = 16 * HEAD_BYTES;
/**
 * Bound of the processor time of a text, as a multiple of that of the hash of as many bytes. Parsers take at most 4.6, and 7.8
 * was measured beside other work. A head is hashed in 2.9 µs by the EPYC of docs/benchmarks.md, so the bound is 43 µs there; a
 * whole request without a key may take 100.
 */
const MAX_HASHES = 15;
/** A token of nested arrays takes 31, which are 70 µs in JSON.parse, and 40 beside other work; the bound is 136 µs. */
const MAX_TOKEN_HASHES = 60;
/**
 * Measurements of each text. The least time counts, because collections of garbage, compilations and other work only add to it.
 * A text that seems too slow is measured further, until the least time holds or so many have been made.
 */
const ROUNDS = 9;
const MAX_ROUNDS = 200;
/** Bytes that are read between two looks at the processor's time. */
const BYTES_A_ROUND = 20 * HEAD_BYTES;

/** Texts made of a beginning and a repeated unit, in which `#` is replaced by the number of the repetition. */
interface Texts {
  bytes: number;
  maxHashes: number;
  unit: fc.Arbitrary<string>;
  beginning: fc.Arbitrary<string>;
  /** makes what the parser takes */
  made: (text: string) => string | Buffer;
  examples: [unit: string, beginning: string][];
}

const unitOf = (pieces: fc.Arbitrary<string>, maxLength: number) =>
  fc.array(pieces, { minLength: 1, maxLength }).map((parts) => parts.join(''));
const PIECES = fc.constantFrom(
  ...[
    '%zz %zz& % %4 %ff %41 %e2%82%ac %c3 %2f \xe9 \xf0\x9f\x98\x80 + & = / // limit limit=1& after=%zz&',
    'registry_id= %6cimit l r . .. ; ? 0 - 00- " "", W/" * , *, gzip ;q=0.5 gzip;q=0.1, br;q= identity a A \\ hk_',
  ].flatMap((text) => text.split(' ')),
);
const ANY = fc.stringMatching(/^[!-~]{1,3}$/);
const JSON_PIECES = fc.constantFrom(
  ...'[ ] { } : , " \\ \\u00e9 \\ud83d "a" "#" "#":0, "k#":0, 1 1.5 1e9 -0 é 😀 \0 true "ids":['.split(' '),
);
const BATCHES = ['ids', 'channel_ids', 'registry_ids'].flatMap((name) =>
  ['', '"1",', '1,', '"1"],"x":['].map((rest) => `{"${name}":[${rest}`),
);

const HEAD: Texts = {
  bytes: HEAD_BYTES,
  maxHashes: MAX_HASHES,
  unit: unitOf(fc.oneof({ weight: 3, arbitrary: PIECES }, ANY), 3),
  beginning: fc.constantFrom('', 'limit=1&', 'gzip,', '"a",'),
  made: (text) => text,
  // they took 5 to 700 times as long as a benign text in earlier versions
  examples: ['%zz&', '&', 'r&', '*,', 'gzip;q=0.1,', '"",'].map((unit) => [unit, '']),
};
const TOKEN_BYTES = (HEAD_BYTES / 4) * 3;
const TOKEN: Texts = {
  bytes: TOKEN_BYTES,
  maxHashes: MAX_TOKEN_HASHES,
  unit: fc.oneof(HEAD.unit, unitOf(JSON_PIECES, 5)),
  beginning: fc.constantFrom('', '[', '[1,"', '[1,"h",5,"', '{"', '[{'),
  made: (text) => sealed(Buffer.from(text).toString('utf8', 0, TOKEN_BYTES)),
  examples: ['[', '{"":', '"k#":0,', '\\ud83d', '"",'].map((unit) => [unit, '[1,']),
};
const BODY: Texts = {
  bytes: BODY_BYTES,
  maxHashes: MAX_HASHES,
  unit: unitOf(JSON_PIECES, 5),
  beginning: fc.constantFrom('', '{"x":"', ...BATCHES),
  made: (text) => Buffer.from(text),
  examples: [
    ['0', '{"registry_ids":[1.0,1.'],
    ['1', '{"registry_ids":[1.0,1e'],
    ['0', '{"registry_ids":[1.0,"'],
    [',1.5e-3', '{"registry_ids":[1.0'],
    [',1', '{"registry_ids":[1'],
    [',"registry\\u005fids":[1]', '{"registry_ids":[1.0]'],
    ['"k#":0,', '{"registry_ids":[1.0],'],
    ['[{"":', ''],
    ['\\ud83d', '{"ids":["a"],"x":["'],
    [`,"#"${' '.repeat(80)}`, '{"ids":["a"'],
    [',""', '{"channel_ids":["a"'],
  ],
};

const arena = new CacheArena(new CacheMemory(0));
const bodyOf = (namespace: Namespace) => (body: Buffer) =>
  bodyErrorOf(namespace, arena.gather(namespace, body, 'full', 0));

/** What reads a text of a client before and after its key is known. */
const PARSERS: Record<string, [texts: Texts, parse: (text: never) => unknown]> = {
  key: [HEAD, isWellFormed],
  host: [HEAD, isHost],
  'request id': [HEAD, requestIdOf],
  'trace context': [HEAD, traceContextOf],
  'Accept-Encoding': [HEAD, encodingFor],
  'If-None-Match': [HEAD, (text: string) => matches(text, 'AAAA-BBBB_CC')],
  'path of a hotel': [HEAD, decodeParameter],
  'path of a registry id': [HEAD, (text: string) => readRegistryId(decodeParameter(text) ?? '')],
  'query of the list': [HEAD, readListQuery],
  'query of changes': [HEAD, readChangesQuery],
  'forged token': [TOKEN, readToken],
  'body of ids': [BODY, bodyOf('id')],
  'body of channel ids': [BODY, bodyOf('channel')],
  'body of registry ids': [BODY, bodyOf('registry')],
};

function textOf({ bytes, made }: Texts, unit: string, beginning: string): string | Buffer {
  let text = beginning;
  for (let i = 0; text.length < bytes; i++) text += unit.replaceAll('#', `${i}`);
  return made(text.slice(0, bytes));
}

/** Returns the processor time of a call as a multiple of that of another; both are measured in turn. */
function ratioOf(call: () => unknown, other: () => unknown, times: number, max: number): number {
  const least = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const ratio = () => least[0]! / least[1]!;
  for (let round = 0; round < ROUNDS || (ratio() >= max && round < MAX_ROUNDS); round++)
    for (const [i, each] of [call, other].entries()) {
      const before = process.cpuUsage();
      for (let time = 0; time < times; time++) each();
      const { user, system } = process.cpuUsage(before);
      least[i] = Math.min(least[i]!, user + system);
    }
  return ratio();
}

it.each(Object.entries(PARSERS))(
  'a text of a client is read in about as much processor time as it is hashed, whatever it contains: %s',
  (_, [texts, parse]) => {
    const benign = Buffer.alloc(texts.bytes, 'x');
    const hashed = () => hash('sha256', benign);
    const times = Math.ceil(BYTES_A_ROUND / texts.bytes);
    fc.assert(
      fc.property(texts.unit, texts.beginning, (unit, beginning) => {
        const text = textOf(texts, unit, beginning);
        const hashes = ratioOf(() => parse(text as never), hashed, times, texts.maxHashes);
        expect(hashes, 'hashes').toBeLessThan(texts.maxHashes);
      }),
      { numRuns: 200, examples: texts.examples },
    );
  },
);
