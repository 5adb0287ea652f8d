/** What was served for one key. */
export interface KeyUsage {
  keyId: string;
  requests: number;
  hotels: number;
  /** of bodies as sent */
  bytes: number;
}

/** Maximum number of keys that a worker counts before it reports. */
const MAX_COUNTED_KEYS = 10_000;

/** Counts the use of keys in a worker, between two reports. */
export class UsageCounter {
  readonly #send: (usage: KeyUsage[]) => void;
  #byKey = new Map<string, KeyUsage>();

  constructor(send: (usage: KeyUsage[]) => void) {
    this.#send = send;
  }

  /** Counts a response, unless the client got none, or was rejected by its limit or for a fault of the service. */
  count(keyId: string, status: number, hotels: number, bytes: number): void {
    if (status === 0 || status === 429 || status >= 500) return;
    let usage = this.#byKey.get(keyId);
    if (usage === undefined) {
      if (this.#byKey.size >= MAX_COUNTED_KEYS) this.report();
      usage = { keyId, requests: 0, hotels: 0, bytes: 0 };
      this.#byKey.set(keyId, usage);
    }
    usage.requests++;
    usage.hotels += hotels;
    usage.bytes += bytes;
  }

  /** Reports what was counted since the last report. */
  report(): void {
    if (this.#byKey.size === 0) return;
    const usage = [...this.#byKey.values()];
    this.#byKey = new Map();
    this.#send(usage);
  }
}
