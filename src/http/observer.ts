import type { Principal } from '../auth/principal.ts';
import type { EventLoop } from '../lib/event-loop.ts';

/** Observer of an exchange's end. */
export interface Observer<Exchange> {
  /** Called once for each response: true if it asks the client to close its connection. */
  mustClose(): boolean;
  /** false: responses are never compressed */
  readonly compresses: boolean;
  readonly eventLoop: EventLoop;
  /**
   * Judges the key again for a response that was made at this time, and could not be sent at once; `before`: what the key was
   * then. Returns true if it may be sent; else responds. Throws `Unavailable`.
   */
  mayStillSend(exchange: Exchange, before: Principal | undefined, madeAtMs: number): Promise<boolean>;
  /** Answers a failure. */
  failed(exchange: Exchange, error: unknown): void;
  /** Called if the client has not taken the whole response; `finished` follows. */
  sending(): void;
  /**
   * status 0: the client disconnected first. `seconds`: time until the response was made, or the client disconnected.
   * `bytes`: size of the body as sent.
   */
  finished(exchange: Exchange, status: number, seconds: number, bytes: number): void;
}
