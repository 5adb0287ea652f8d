import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { median } from '../figures.ts';
import { hotelFor } from '../hotels.ts';
import { withChannel } from '../scenarios.ts';
import type { World } from '../world.ts';

const SIZE = 1000;
const ROUNDS = 9;

/** Result of one level for the JSON of a batch of 1000: median time on one core, and compression ratio. */
export interface Compression {
  encoding: 'zstd' | 'br' | 'gzip';
  level: number;
  ms: number;
  ratio: number;
}

const LEVELS: [Compression['encoding'], number[], (body: Buffer, level: number) => Buffer][] = [
  [
    'zstd',
    [1, 3, 6],
    (body, level) => zstdCompressSync(body, { params: { [constants.ZSTD_c_compressionLevel]: level } }),
  ],
  [
    'br',
    [1, 4, 6],
    (body, level) =>
      brotliCompressSync(body, {
        params: { [constants.BROTLI_PARAM_QUALITY]: level, [constants.BROTLI_PARAM_SIZE_HINT]: body.length },
      }),
  ],
  ['gzip', [1, 2, 6], (body, level) => gzipSync(body, { level })],
];

/** Compresses a batch by each encoding and level available to the service, in rounds. */
export function compression({ hotels }: World): Compression[] {
  const batch = withChannel(hotels).slice(0, SIZE);
  const body = Buffer.from(JSON.stringify(batch.map((hotel) => hotelFor(hotel, true))));
  const times = new Map<string, number[]>();
  const sizes = new Map<string, number>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [encoding, levels, compress] of LEVELS) {
      for (const level of levels) {
        const name = `${encoding} ${level}`;
        const beganAtMs = performance.now();
        sizes.set(name, compress(body, level).length);
        times.set(name, [...(times.get(name) ?? []), performance.now() - beganAtMs]);
      }
    }
  }
  return LEVELS.flatMap(([encoding, levels]) =>
    levels.map((level) => {
      const name = `${encoding} ${level}`;
      return { encoding, level, ms: median(times.get(name)!), ratio: body.length / sizes.get(name)! };
    }),
  );
}
