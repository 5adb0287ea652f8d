import type { HttpRequest } from 'uWebSockets.js';
import type { Route } from '../observability/request-histogram.ts';
import type { NEEDS_LOAD } from './admission.ts';
import type { Exchange } from './exchange.ts';

/** A route of GET and HEAD. */
export interface GetRouteDefinition {
  route: Route;
  /** takes from the request what the response needs; the request cannot be read later */
  read: (request: HttpRequest) => string;
  /** returns true if the request needs the `registry` scope */
  needsRegistry: (input: string) => boolean;
  respond: (exchange: Exchange, input: string) => void | Promise<void>;
}

/** Result of answering from the local cache alone, or with loads. */
export type Pending = void | typeof NEEDS_LOAD | Promise<void>;

/**
 * Calls `respond` when it is the turn of a page of so many hotels, as `PostRouteDefinition.respond` is called, if the key may
 * still read it.
 */
export type AnswerPage = (exchange: Exchange, hotels: number, respond: (mayLoad: boolean) => Pending) => void;

/** A route of POST. */
export interface PostRouteDefinition {
  route: Route;
  needsRegistry: boolean;
  /**
   * Answers the request. The body is valid until the first await. With `mayLoad` false it answers from the local
   * cache alone, or does nothing and returns NEEDS_LOAD.
   */
  respond: (exchange: Exchange, body: Uint8Array, mayLoad: boolean) => Pending;
}

/** An operation of the contract. */
export type Operation = GetRouteDefinition | PostRouteDefinition;
