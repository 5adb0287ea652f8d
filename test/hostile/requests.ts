import { LoadThread } from './load-thread.ts';
import type { RequestCounts, RequestOptions } from './requests-thread.ts';

/** Starts the clients; returns a function that stops them and returns what they received. */
export async function startRequests(options: RequestOptions): Promise<() => Promise<RequestCounts>> {
  const thread = new LoadThread<RequestCounts>('./requests-thread.ts', options);
  await thread.ready;
  thread.start();
  return () => thread.stop();
}
