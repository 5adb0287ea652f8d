import type { Encoding } from '../hotels/entry.ts';
import { compressNow } from './compression.ts';
import { Heads, KEEP_ALIVE, tagOf } from './head.ts';

/** Bytes of a response and the tag of its identity form. */
interface Copy {
  body: Buffer;
  tag: string;
}

/**
 * Serves a page that is the same for all clients and needs no key. It is made and compressed at its first request, the largest
 * file of the documentation in 13 ms.
 */
export class StaticPage {
  readonly heads: Heads;
  readonly #make: () => Buffer | Promise<Buffer>;
  readonly #copies = new Map<Encoding | undefined, Promise<Copy>>();

  /** `headers`: checked lines of this page, each after a line end. */
  constructor(contentType: string, headers: string, make: () => Buffer | Promise<Buffer>) {
    this.heads = new Heads(contentType, `${headers}\r\nvary: accept-encoding${KEEP_ALIVE}`);
    this.#make = make;
  }

  /** Returns the page in this encoding; undefined: identity. */
  read(encoding: Encoding | undefined): Promise<Copy> {
    let copy = this.#copies.get(encoding);
    if (!copy) {
      copy = this.#copyIn(encoding);
      this.#copies.set(encoding, copy);
      // a failed attempt is repeated at the next request
      copy.catch(() => this.#copies.delete(encoding));
    }
    return copy;
  }

  async #copyIn(encoding: Encoding | undefined): Promise<Copy> {
    if (encoding) {
      const { body, tag } = await this.read(undefined);
      return { body: compressNow(body, encoding), tag };
    }
    const body = await this.#make();
    return { body, tag: tagOf(body) };
  }
}
