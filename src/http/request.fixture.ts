import type { HttpRequest } from 'uWebSockets.js';

/** Returns a request with these headers, in their order. */
export function requestWith(...headers: [name: string, value: string][]): HttpRequest {
  const forEach = (take: (name: string, value: string) => void) => {
    for (const [name, value] of headers) take(name, value);
  };
  return { forEach } as unknown as HttpRequest;
}
