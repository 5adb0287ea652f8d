import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';

/** Decoders of the content codings that the service offers. */
export const DECODERS = { zstd: zstdDecompressSync, br: brotliDecompressSync, gzip: gunzipSync };
export type Coding = keyof typeof DECODERS;
export const CODINGS = Object.keys(DECODERS) as Coding[];
