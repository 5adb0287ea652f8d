import { LruCache } from '../lib/lru-cache.ts';
import type { Encoding } from './compression.ts';

/** Memory of an entry beside its bytes. */
const ENTRY_BYTES = 300;

/**
 * Compressed pages of the list, the last used ones, by tag. A tag stands for the bytes of a page, so no change makes an entry
 * wrong: the page then has another tag.
 */
export class CompressedPages {
  readonly #pages: LruCache<string, Buffer>;

  constructor(maxBytes: number) {
    this.#pages = new LruCache(maxBytes, ({ length }) => length + ENTRY_BYTES);
  }

  get(tag: string, encoding: Encoding): Buffer | undefined {
    return this.#pages.get(tag + encoding);
  }

  /** Keeps a copy of a page. */
  put(tag: string, encoding: Encoding, page: Uint8Array): void {
    // a small result of zlib would keep the whole 8 KiB of Node's pool that it is a part of
    const kept = Buffer.allocUnsafeSlow(page.length);
    kept.set(page);
    this.#pages.put(tag + encoding, kept);
  }
}
