import { compress, type Encoding } from './compression.ts';
import { tagOf } from './etag.ts';
import { Heads } from './head.ts';

/** Bytes as they go out, and the tag of the identity bytes. */
interface Copy {
  body: Buffer;
  tag: string;
}

/** Something that is the same for everybody and needs no key. Made, and compressed, when it is first asked for. */
export class Page {
  readonly heads: Heads;
  readonly #make: () => Buffer | Promise<Buffer>;
  readonly #copies = new Map<Encoding | undefined, Promise<Copy>>();

  /** `headers`: those of this page: checked, each after a line end. */
  constructor(contentType: string, headers: string, make: () => Buffer | Promise<Buffer>) {
    this.heads = new Heads(contentType, `${headers}\r\nvary: accept-encoding`);
    this.#make = make;
  }

  /** The page in this encoding; undefined: as it is. */
  read(encoding: Encoding | undefined): Promise<Copy> {
    let copy = this.#copies.get(encoding);
    if (!copy) {
      copy = encoding ? this.#compress(encoding) : this.#identity();
      this.#copies.set(encoding, copy);
      // what failed is tried again
      copy.catch(() => this.#copies.delete(encoding));
    }
    return copy;
  }

  async #identity(): Promise<Copy> {
    const body = await this.#make();
    return { body, tag: tagOf(body) };
  }

  async #compress(encoding: Encoding): Promise<Copy> {
    const { body, tag } = await this.read(undefined);
    return { body: await compress(body, encoding, 'smallest'), tag };
  }
}
