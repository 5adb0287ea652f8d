import { LruCache } from '../lib/lru-cache.ts';
import type { Encoding } from './compression.ts';

/** Memory of an entry beside its bytes. */
const ENTRY_BYTES = 300;

interface KeptPage {
  body: Buffer;
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
      ({ body, compressed }) => body.length + compressed.length + ENTRY_BYTES,
    );
  }

  get(tag: string, encoding: Encoding, body: Uint8Array): Buffer | undefined {
    const kept = this.#pages.get(tag + encoding);
    return kept?.body.equals(body) ? kept.compressed : undefined;
  }

  /** Keeps copies of a page and of its compressed form. */
  put(tag: string, encoding: Encoding, body: Uint8Array, compressed: Uint8Array): void {
    this.#pages.put(tag + encoding, { body: copyOf(body), compressed: copyOf(compressed) });
  }
}

/** A small result of zlib would keep the whole 8 KiB of Node's pool that it is a part of. */
function copyOf(bytes: Uint8Array): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}
