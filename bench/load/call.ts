/** Request as bytes, and the expected response. */
export interface Call {
  /** whole HTTP/1.1 request */
  bytes: Buffer;
  status: number;
  /** exact length of the response's body, before compression */
  bodyBytes: number;
  /** true: the length of the response's body is unknown */
  mayBeCompressed?: boolean;
  /** returns the parsed body of the response; undefined: only its length is checked */
  body?: () => unknown;
}

export interface RequestParts {
  path: string;
  key: string;
  /** body of a POST; without it the request is a GET */
  json?: string;
}

/** Returns the bytes of a request with the headers of a usual client. */
export function requestBytes({ path, key, json }: RequestParts): Buffer {
  const method = json === undefined ? 'GET' : 'POST';
  const head = `${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: ${key}\r\n`;
  if (json === undefined) return Buffer.from(`${head}\r\n`);
  const length = Buffer.byteLength(json);
  return Buffer.from(`${head}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n${json}`);
}

/** Returns the parts of a request for a client that writes its own host and length. */
export function parseCall({ bytes }: Call) {
  const [head, body] = bytes.toString().split('\r\n\r\n') as [string, string];
  const [first, ...lines] = head.split('\r\n') as [string, ...string[]];
  const [method, path] = first.split(' ') as ['GET' | 'POST', string];
  const headers = Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]));
  delete headers.host;
  delete headers['content-length'];
  return { method, path, headers, ...(body && { body }) };
}

/** Result of a load run. Latencies are in microseconds, of requests with the expected response. */
export interface LoadResult {
  requests: number;
  seconds: number;
  p50Us: number;
  p99Us: number;
  /** descriptions of the first unexpected responses, and their number */
  faults: string[];
  faultCount: number;
}
