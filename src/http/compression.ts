import { promisify } from 'node:util';
import { brotliCompress, constants, gzip, zstdCompress } from 'node:zlib';
import Negotiator from 'negotiator';

/** Bodies up to this size go out as they are. */
export const MIN_COMPRESSED_BYTES = 1025;

/** A content coding of ours. */
export type Encoding = 'zstd' | 'br' | 'gzip';
const PREFERENCE: Encoding[] = ['zstd', 'br', 'gzip'];

const [zstd, brotli, toGzip] = [promisify(zstdCompress), promisify(brotliCompress), promisify(gzip)];

/**
 * Levels. Quick: a batch of 1000 hotels (1.06 MB) takes 1.7 ms of processor time by zstd 1 for a ratio of 8.2 (level 3:
 * 2.6 ms, 8.5), 1.7 ms by br 1 for 7.6 (level 4: 3.8 ms, 8.9), 2.7 ms by gzip 1 for 6.5 (level 6: 6.7 ms, 8.4).
 * That is ten times what the answer itself costs, so the cheapest level of each is the right one. Small is for what is
 * compressed once and sent often; Brotli's last levels would take seconds for a megabyte.
 */
const LEVELS = { zstd: { quick: 1, small: 15 }, br: { quick: 1, small: 9 }, gzip: { quick: 1, small: 9 } };

/**
 * The encoding that a client's Accept-Encoding prefers among ours; undefined: as it is. `*` stands for gzip at most,
 * because clients that send it do not always know the newer codings.
 */
export function chooseEncoding(acceptEncoding: string): Encoding | undefined {
  if (acceptEncoding === '' || acceptEncoding === 'identity') return undefined;
  const ours = acceptEncoding.includes('*') ? offeredToAny(acceptEncoding) : PREFERENCE;
  const accepted = new Negotiator({ headers: { 'accept-encoding': acceptEncoding } });
  // the published types are of an older version
  const encodings = accepted.encodings.bind(accepted) as (available: string[], options: object) => string[];
  const chosen = encodings([...ours, 'identity'], { preferred: ours })[0];
  return chosen === undefined || chosen === 'identity' ? undefined : (chosen as Encoding);
}

/** What is offered to an Accept-Encoding with `*`: the codings that it names; gzip, unless it names identity alone. */
function offeredToAny(acceptEncoding: string): Encoding[] {
  const named = acceptEncoding.split(',').map((part) => part.split(';', 1)[0]!.trim().toLowerCase());
  return PREFERENCE.filter(
    (coding) => named.includes(coding) || (coding === 'gzip' && !named.includes('identity')),
  );
}

/** Each keeps its body, of up to some megabytes, and a process has four threads for all of them. */
const MAX_UNDER_WAY = 64;
let underWay = 0;

/** False while so many bodies wait to be compressed that one more had better go out as it is. */
export function mayCompress(): boolean {
  return underWay < MAX_UNDER_WAY;
}

/** Compresses off the event loop. */
export async function compress(
  body: Buffer,
  encoding: Encoding,
  aim: 'quick' | 'small' = 'quick',
): Promise<Buffer> {
  underWay++;
  try {
    return await encode(body, encoding, aim);
  } finally {
    underWay--;
  }
}

function encode(body: Buffer, encoding: Encoding, aim: 'quick' | 'small'): Promise<Buffer> {
  const level = LEVELS[encoding][aim];
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT, ZSTD_c_compressionLevel } = constants;
  switch (encoding) {
    case 'zstd':
      return zstd(body, { params: { [ZSTD_c_compressionLevel]: level } });
    case 'br':
      return brotli(body, {
        params: { [BROTLI_PARAM_QUALITY]: level, [BROTLI_PARAM_SIZE_HINT]: body.length },
      });
    case 'gzip':
      return toGzip(body, { level });
  }
}
