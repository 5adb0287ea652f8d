import type { Encoding } from './compression.ts';

/** Memory of an entry beside its bytes. */
const ENTRY_BYTES = 300;

/**
 * Compressed pages of the list, the last used ones, by tag. A tag stands for the bytes of a page, so no change makes an entry
 * wrong: the page then has another tag.
 */
export class CompressedPages {
  readonly #maxBytes: number;
  #bytes = 0;
  /** the least recently used first */
  readonly #pages = new Map<string, Buffer>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(tag: string, encoding: Encoding): Buffer | undefined {
    const name = tag + encoding;
    const page = this.#pages.get(name);
    if (!page) return undefined;
    this.#pages.delete(name);
    this.#pages.set(name, page);
    return page;
  }

  /** Keeps a copy of a page, and drops the least recently used ones beyond the limit. */
  put(tag: string, encoding: Encoding, page: Uint8Array): void {
    const name = tag + encoding;
    if (this.#pages.has(name) || page.length + ENTRY_BYTES > this.#maxBytes) return;
    // a small result of zlib would keep the whole 8 KiB of Node's pool that it is a part of
    const kept = Buffer.allocUnsafeSlow(page.length);
    kept.set(page);
    this.#pages.set(name, kept);
    this.#bytes += page.length + ENTRY_BYTES;
    for (const [oldest, { length }] of this.#pages) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#pages.delete(oldest);
      this.#bytes -= length + ENTRY_BYTES;
    }
  }
}
