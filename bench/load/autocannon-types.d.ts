declare module 'autocannon' {
  import type { EventEmitter } from 'node:events';

  interface Options {
    url: string;
    connections: number;
    /** seconds */
    duration: number;
    requests: { method: 'GET' | 'POST'; path: string; headers: Record<string, string>; body?: string }[];
  }
  /** Event `response`: client, status, bytes with the head, milliseconds. */
  function autocannon(options: Options): EventEmitter & PromiseLike<unknown>;
  export default autocannon;
}
