/** A request that is ready to be sent, and what its answer must be. */
export interface Call {
  /** the whole request of HTTP/1.1 */
  bytes: Buffer;
  status: number;
  /** of the answer's body, exactly; of one that may be compressed, before that */
  bodyBytes: number;
  /** true: the length of the answer's body is not known beforehand */
  mayBeCompressed?: boolean;
  /** the answer's body, parsed; undefined: only its length counts */
  body?: () => unknown;
}

export interface Ask {
  path: string;
  key: string;
  /** POST with this JSON; GET without */
  json?: string;
}

/** The bytes of a request, with the headers that a client of the API sends. */
export function requestBytes({ path, key, json }: Ask): Buffer {
  const method = json === undefined ? 'GET' : 'POST';
  const head = `${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: ${key}\r\n`;
  if (json === undefined) return Buffer.from(`${head}\r\n`);
  const length = Buffer.byteLength(json);
  return Buffer.from(`${head}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n${json}`);
}

/** What a run of load yielded. Latencies are in microseconds, of the requests that were answered as they must be. */
export interface LoadResult {
  requests: number;
  seconds: number;
  p50Us: number;
  p99Us: number;
  /** the first few answers that were not what they must be, in words, and how many there were */
  faults: string[];
  faultCount: number;
}
