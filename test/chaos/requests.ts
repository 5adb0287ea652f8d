/** Returns the bytes of a GET for the path behind `/hotels/`. */
export function getRequest(key: string, path: string): string {
  return `GET /hotels/${path} HTTP/1.1\r\nHost: chaos\r\nX-Api-Key: ${key}\r\n\r\n`;
}

/** Returns the bytes of a batch request for the hotels of these numbers. */
export function batchRequest(key: string, namespace: 'channel' | 'registry', numbers: number[]): string {
  const body = JSON.stringify(
    namespace === 'channel'
      ? { channel_ids: numbers.map((i) => `CH-${i}`) }
      : { registry_ids: numbers.map((i) => 500_000 + i) },
  );
  return `POST /hotels/${namespace}/batch HTTP/1.1\r\nHost: chaos\r\nX-Api-Key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}
