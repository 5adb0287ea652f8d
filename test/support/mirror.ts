import type { HttpResponse } from './client.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
type MirroredHotel = any;

interface ChangePage {
  changes: { id: string; hotel: MirroredHotel | null }[];
  next: string;
  more: boolean;
}

/** Client that keeps a copy of all hotels by `GET /changes`. */
export class Mirror {
  get: (path: string) => Promise<HttpResponse>;
  readonly #limit: number;
  readonly hotels = new Map<string, MirroredHotel>();
  /** ids of all hotels it has received */
  readonly announced = new Set<string>();
  next: string | undefined;
  more = true;
  requests = 0;

  constructor(get: (path: string) => Promise<HttpResponse>, limit = 1000) {
    this.get = get;
    this.#limit = limit;
  }

  /** Sends one request and applies its response. Throws if it is not a page of changes. */
  async requestPage(waitS = 0): Promise<ChangePage> {
    this.requests++;
    const after = this.next === undefined ? '' : `&after=${encodeURIComponent(this.next)}`;
    const response = await this.get(`/changes?limit=${this.#limit}&wait=${waitS}${after}`);
    if (response.status !== 200)
      throw Object.assign(new Error(`${response.status} ${response.text}`), { response });
    const page: ChangePage = response.json();
    if (page.changes.length > this.#limit) throw new Error('the page is longer than its limit');
    for (const { id, hotel } of page.changes) {
      this.announced.add(id);
      if (hotel) this.hotels.set(id, hotel);
      else this.hotels.delete(id);
    }
    this.next = page.next;
    this.more = page.more;
    return page;
  }

  /** Sends requests until it is up to date. */
  async catchUp(): Promise<void> {
    do await this.requestPage();
    while (this.more);
  }
}
