import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { gzip } from '../../src/http/compression.ts';
import { median } from '../figures.ts';
import { hotelFor } from '../hotels.ts';
import { withChannel } from '../scenarios.ts';
import type { World } from '../world.ts';

const SIZE = 1000;
const ROUNDS = 5;
/** Calls of a candidate in each round: a service that compresses one response after the other has its code in the caches. */
const CALLS = 5;

/** Result of one level for the JSON of a batch of 1000: median time on one core, and compression ratio. */
export interface Compression {
  encoding: 'zstd' | 'br' | 'gzip';
  level: number | 'of the service';
  ms: number;
  ratio: number;
}

type Candidate = Pick<Compression, 'encoding' | 'level'> & { compress(body: Buffer): Buffer };

const CANDIDATES: Candidate[] = [
  ...[1, 3, 6].map((level) => ({
    encoding: 'zstd' as const,
    level,
    compress: (body: Buffer) =>
      zstdCompressSync(body, { params: { [constants.ZSTD_c_compressionLevel]: level } }),
  })),
  ...[1, 4, 6].map((level) => ({
    encoding: 'br' as const,
    level,
    compress: (body: Buffer) =>
      brotliCompressSync(body, {
        params: { [constants.BROTLI_PARAM_QUALITY]: level, [constants.BROTLI_PARAM_SIZE_HINT]: body.length },
      }),
  })),
  ...[1, 2, 6].map((level) => ({
    encoding: 'gzip' as const,
    level,
    compress: (body: Buffer) => gzipSync(body, { level }),
  })),
  { encoding: 'gzip', level: 'of the service', compress: gzip },
];

/** Compresses a batch by each encoding and level available to the service, in rounds. */
export function compression({ hotels }: World): Compression[] {
  const batch = withChannel(hotels).slice(0, SIZE);
  const body = Buffer.from(JSON.stringify(batch.map((hotel) => hotelFor(hotel, true))));
  const measured = CANDIDATES.map((candidate) => ({ ...candidate, times: [] as number[], bytes: 0 }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const candidate of measured) {
      for (let call = 0; call < CALLS; call++) {
        const beganAtMs = performance.now();
        candidate.bytes = candidate.compress(body).length;
        candidate.times.push(performance.now() - beganAtMs);
      }
    }
  }
  return measured.map(({ encoding, level, times, bytes }) => ({
    encoding,
    level,
    ms: median(times),
    ratio: body.length / bytes,
  }));
}
