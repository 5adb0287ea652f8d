import { LruCache } from '../lib/lru-cache.ts';
import type { Encoding } from './compression.ts';

/** Memory of an entry beside its bytes. */
const PAGE_OVERHEAD_BYTES = 300;

interface KeptPage {
  body: Uint8Array;
  compressed: Buffer;
}

/**
 * Compressed pages of the list, the last used ones, by tag. A page is used only for the same body: values of Redis have tags
 * that a hostile writer may choose.
 */
export class CompressedPages {
  readonly #pages: LruCache<string, KeptPage>;

  constructor(maxBytes: number) {
    this.#pages = new LruCache(
      maxBytes,
      ({ body, compressed }) => body.length + compressed.length + PAGE_OVERHEAD_BYTES,
    );
  }

  get(tag: string, encoding: Encoding, body: Uint8Array): Buffer | undefined {
    const kept = this.#pages.get(tag + encoding);
    return kept && Buffer.compare(kept.body, body) === 0 ? kept.compressed : undefined;
  }

  /** Keeps a page, which must not be overwritten, and a copy of its compressed form. */
  put(tag: string, encoding: Encoding, body: Uint8Array, compressed: Uint8Array): void {
    // a small result of zlib would keep the whole 8 KiB of Node's pool that it is a part of
    const own = Buffer.allocUnsafeSlow(compressed.length);
    own.set(compressed);
    this.#pages.put(tag + encoding, { body, compressed: own });
  }
}
