import type { Encoding } from './compression.ts';

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

  /** Keeps a page, whose bytes must not change, and drops the least recently used ones beyond the limit. */
  put(tag: string, encoding: Encoding, page: Buffer): void {
    const name = tag + encoding;
    if (this.#pages.has(name) || page.length > this.#maxBytes) return;
    this.#pages.set(name, page);
    this.#bytes += page.length;
    for (const [oldest, { length }] of this.#pages) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#pages.delete(oldest);
      this.#bytes -= length;
    }
  }
}
