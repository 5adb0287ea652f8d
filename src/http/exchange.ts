import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { Principal } from '../auth/principal.ts';
import type { PublicError } from '../errors.ts';
import type { Encoding } from '../hotels/entry.ts';
import { type Body, LargeBody } from '../hotels/json-array.ts';
import { monotonicMs, onIteration } from '../lib/clock.ts';
import { type EventLoop, workOf } from '../lib/event-loop.ts';
import type { RequestCounter } from '../observability/request-histogram.ts';
import {
  type Compressed,
  type CompressedPages,
  compress,
  compressNow,
  MAX_SYNC_BYTES,
  MIN_COMPRESSED_BYTES,
  mayCompress,
  takesThread,
} from './compression.ts';
import { type Answer, CLOSE, ERROR_HEADS, JSON_HEADS, type Tag } from './head.ts';
import { ReceivedRequest } from './received-request.ts';
import { discardBody, keep, type PendingWrite, release, writeOn } from './transfers.ts';

/** Maximum size of a response that one call writes; uWebSockets.js needs larger ones in parts. */
const MAX_SINGLE_WRITE_BYTES = 16_384;
/** What the kernel usually takes of a response at once, with the send buffers of the manifests. */
export const MAX_TAKEN_BYTES = 512 * 1024;

/** Hotels may leave the collection of a key while a larger body is compressed. */
const MAX_COMPRESSED_OF_COLLECTION = 8 * 1024 * 1024;

/** The pipeline, as exchanges call it. */
export interface Observer {
  /** false: responses are never compressed */
  readonly compresses: boolean;
  readonly eventLoop: EventLoop;
  /** Called once for each response: true if it asks the client to close its connection. */
  mustClose(): boolean;
  /** Judges the key again, as `AccessControl.mayStillSend` does. */
  readonly access: {
    mayStillSend(exchange: Exchange, before: Principal | undefined, madeAtMs: number): Promise<boolean>;
  };
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

/**
 * Handles one request and its response. It copies what it needs later, because the request cannot be read after the
 * handler returns. It responds at most once, and not at all after the client has disconnected.
 */
export class Exchange extends ReceivedRequest {
  /** no response can be sent any more */
  over = false;
  /** set by the pipeline: lets other loads begin, although this one goes on */
  releaseLoad: (() => void) | undefined;
  /** monotonic time in ms, without what the client asked to wait */
  startedAtMs = monotonicMs();
  readonly response: HttpResponse;
  readonly #observer: Observer;
  #deferred = false;
  /** the iteration in which the request was read was used up, and is not over */
  #isHeld = false;
  #made = false;
  /** while the response is compressed in later iterations or on another thread */
  #compressing = false;
  /** the unsent rest of the response */
  #pending: PendingWrite | undefined;
  #madeAtMs: number | undefined;
  #onMade: (() => void) | undefined;

  constructor(response: HttpResponse, request: HttpRequest, counter: RequestCounter, observer: Observer) {
    super(request, counter);
    this.response = response;
    this.#observer = observer;
  }

  /** Returns the monotonic time in ms, read once for everything before the handler returns. */
  get nowMs(): number {
    return this.#deferred ? monotonicMs() : this.startedAtMs;
  }

  /** Returns true if the client has not taken the whole response, or had not when it disconnected. */
  get sending(): boolean {
    return this.#pending !== undefined;
  }

  override get encoding(): Encoding | undefined {
    return this.#observer.compresses ? super.encoding : undefined;
  }

  /**
   * Calls back when the response is made, or when the client has disconnected and no work on it remains. Its bytes may still be
   * unsent.
   */
  whenMade(done: () => void): void {
    if (this.#made || (this.over && !this.#compressing)) done();
    else this.#onMade = done;
  }

  /** Excludes the time that the client asked to wait from the duration of the response. */
  waited(): void {
    this.startedAtMs = monotonicMs();
  }

  /** Prepares for a later response. Must be called before the handler returns without one. */
  defer(): void {
    if (this.#deferred || this.over) return;
    this.#deferred = true;
    // what is ready would otherwise be answered within the parser, for as long as the client pipelines
    if (this.#observer.eventLoop.isUsedUp(this.startedAtMs)) {
      this.#isHeld = true;
      onIteration(() => {
        this.#isHeld = false;
      });
    }
    this.response.onAborted(() => this.#finish(0, 0, this.#madeAtMs));
  }

  /**
   * Sends 200 with JSON. `tag` belongs to the identity bytes; POST has none. The body may be overwritten after the
   * call. With `pages`, the compressed bytes come from there, or are kept there.
   */
  ok(body: Body, tag: string, headers = '', pages?: CompressedPages): void {
    if (this.over) return;
    const wanted = body.length >= MIN_COMPRESSED_BYTES ? this.encoding : undefined;
    const mayTakeLong = this.principal?.collection == null || body.length <= MAX_COMPRESSED_OF_COLLECTION;
    const encoding = wanted && mayTakeLong && mayCompress(body.length, this.owner) ? wanted : undefined;
    if (encoding === undefined || this.isKnown(tag)) this.okEncoded(body, tag, encoding, headers);
    else this.#okCompressed(body, tag, encoding, headers, pages);
  }

  #okCompressed(body: Body, tag: string, encoding: Encoding, headers: string, pages?: CompressedPages): void {
    const piece = body instanceof LargeBody ? undefined : body;
    const kept = piece && pages?.get(tag, encoding, piece);
    // compressed later, the body may be overwritten by then; what another thread compresses is not kept
    const mayBeKept = piece && pages && !kept && !takesThread(piece.length, this.owner);
    const own = mayBeKept ? new Uint8Array(piece) : undefined;
    const send = ({ bytes, encoding: used }: Compressed) => {
      if (own && used && bytes instanceof Uint8Array) pages!.put(tag, used, own, bytes);
      this.okEncoded(bytes, tag, used, headers);
    };
    if (kept) send({ bytes: kept, encoding });
    else if (piece && piece.length <= MAX_SYNC_BYTES) send({ bytes: compressNow(piece, encoding), encoding });
    else {
      // other requests need not wait for another thread
      if (takesThread(body.length, this.owner)) this.releaseLoad?.();
      this.#sendLater(compress(body, encoding, this, this.#observer.eventLoop), send);
    }
  }

  /** Sends 200 with a body that already has this encoding. With other `heads`, it must not be overwritten. */
  okEncoded(body: Body, tag: Tag, encoding: Encoding | undefined, headers = '', heads = JSON_HEADS): void {
    const isKnown = this.isKnown(tag);
    const status = isKnown ? 304 : 200;
    this.#send({ status, body: isKnown ? undefined : body, tag, encoding, headers, heads });
  }

  /** Sends an error of the table. */
  fail(error: PublicError, headers = ''): void {
    const { status, body } = error;
    this.#send({ status, body, tag: '', encoding: undefined, headers, heads: ERROR_HEADS.get(error)! });
  }

  /** Rejects a request whose end is unknown or does not arrive. */
  rejectAndClose(error: PublicError): void {
    this.closesConnection = true;
    this.fail(error);
  }

  /**
   * Calls `send` with what is compressed in a later iteration or on another thread, unless the client has gone or its
   * key may not have it any more.
   */
  #sendLater(compressing: Promise<Compressed>, send: (compressed: Compressed) => void): void {
    this.defer();
    const { principal } = this;
    const madeAtMs = monotonicMs();
    this.#compressing = true;
    compressing
      .finally(() => {
        this.#compressing = false;
        if (this.over) this.#onMade?.();
      })
      .then(async (compressed) => {
        const may = !this.over && (await this.#observer.access.mayStillSend(this, principal, madeAtMs));
        if (may && !this.over) send(compressed);
      })
      .catch((error) => this.#observer.failed(this, error));
  }

  #send(answer: Answer): void {
    if (this.over) return;
    if (this.closesConnection || this.#isHeld) this.#writeLater(answer);
    else if (this.#deferred) this.response.cork(() => this.#write(answer));
    else if (this.#observer.eventLoop.isUsedUp(this.startedAtMs)) this.#writeLater(answer);
    else this.#write(answer);
  }

  /**
   * Writes after the HTTP library has left its parser. A pending response stops the parser, and the library closes the
   * connection if another request follows. A response that closes the connection waits for the body: bytes that arrive at
   * a closed connection would reset it.
   */
  #writeLater(answer: Answer): void {
    const response = this.response;
    const { body, heads, tag } = answer;
    // The caller may overwrite a hotel and its tag. The bytes of pages and errors never change.
    const own = body instanceof Uint8Array && heads === JSON_HEADS ? Buffer.from(body) : body;
    const kept = { ...answer, body: own, tag: String(tag) };
    const write = () =>
      onIteration(() => {
        if (this.over) return;
        response.cork(() => this.#write(kept));
        if (this.closesConnection && this.method === 'HEAD') response.close();
      });
    if (this.#deferred || !this.closesConnection) write();
    else discardBody(response, this, write);
    this.defer();
  }

  #write(answer: Answer): void {
    const response = this.response;
    const { status, body } = answer;
    const madeAtMs = monotonicMs();
    this.#made = true;
    this.#onMade?.();
    const head = this.headOf(answer);
    if (!this.closesConnection && (this.headers.wantsClose || this.#observer.mustClose())) head.add(CLOSE);
    if (body === undefined) {
      response.writeStatus(head.bytes);
      this.#finish(status, 0, madeAtMs);
      response.endWithoutBody();
    } else if (this.method === 'HEAD') {
      this.defer();
      this.#finish(status, 0, madeAtMs);
      head.add('\r\ncontent-length: ').add(String(body.length));
      // the library cannot close after a length without a body: it writes the head, and `#writeLater` closes
      if (this.closesConnection) response.writeStatus(head.add(CLOSE).add('\r\n').bytes);
      else response.writeStatus(head.bytes).endWithoutBody();
    } else if (body instanceof Uint8Array && body.length <= MAX_SINGLE_WRITE_BYTES) {
      response.writeStatus(head.bytes);
      this.#finish(status, body.length, madeAtMs);
      // the library writes the header then
      response.end(body, this.closesConnection);
    } else {
      // the library cannot close after a body in parts: the header makes the client close
      if (this.closesConnection) head.add(CLOSE);
      response.writeStatus(head.bytes);
      this.#writeLarge(status, body, answer.heads === JSON_HEADS, madeAtMs);
    }
  }

  #writeLarge(status: number, body: Body, mayBeOverwritten: boolean, madeAtMs: number): void {
    this.defer();
    const response = this.response;
    const total = body.length;
    const [, done] = writeOn(response, body, 0, total);
    if (done) {
      this.#finish(status, total, madeAtMs);
      return;
    }
    // the caller keeps the rest until the kernel has taken it
    const written = response.getWriteOffset();
    const [unsent, start] = body instanceof LargeBody ? [body, 0] : [body.subarray(written), written];
    const rest = keep(unsent, mayBeOverwritten, this.owner, () => this.response.close());
    this.#pending = rest;
    this.#madeAtMs = madeAtMs;
    this.#observer.sending();
    const write = () => {
      const [ok, ended] = writeOn(response, rest.body, start, total);
      if (ended) this.#finish(status, total, madeAtMs);
      return ok;
    };
    const { eventLoop } = this.#observer;
    response.onWritable((offset) => {
      rest.pace.moved(offset - written);
      const nowMs = monotonicMs();
      if (eventLoop.hasTime(nowMs)) return write();
      // 64 clients would take up to 512 KiB each in one iteration
      const size = workOf(Math.min(total - offset, MAX_TAKEN_BYTES));
      eventLoop.append(this.owner, size, () => this.over || response.cork(write), nowMs);
      return true;
    });
  }

  #finish(status: number, bytes: number, madeAtMs = monotonicMs()): void {
    if (this.over) return;
    this.over = true;
    if (!this.#made && !this.#compressing) this.#onMade?.();
    if (this.#pending) release(this.#pending);
    this.#observer.finished(this, status, (madeAtMs - this.startedAtMs) / 1000, bytes);
  }
}
