import { MAC_BYTES, type MacSecret } from '../lib/mac.ts';
import { type FeedMessage, isFeedMessage } from './messages.ts';

/** Length of a code in base64url without padding. */
export const MAC_CHARACTERS = Math.ceil((MAC_BYTES * 8) / 6);

/** Encodes a signed message: its code, then JSON. Any login may send notifications; only the service signs them. */
export function signed(json: string, secret: MacSecret): string {
  return secret.mac('feed', json).toString('base64url') + json;
}

/**
 * Decodes a notification. Returns 'unsigned' if its code does not verify, 'malformed' if a signed one does not match
 * the schema. Never throws.
 */
export function readPayload(payload: string, secret: MacSecret): FeedMessage | 'unsigned' | 'malformed' {
  const mac = Buffer.from(payload.slice(0, MAC_CHARACTERS), 'base64url');
  if (!secret.verifies('feed', payload.slice(MAC_CHARACTERS), mac)) return 'unsigned';
  return readUnverified(payload) ?? 'malformed';
}

/** Decodes a notification of any sender; undefined if it does not match the schema. */
export function readUnverified(payload: string): FeedMessage | undefined {
  try {
    const message: unknown = JSON.parse(payload.slice(MAC_CHARACTERS));
    return isFeedMessage(message) ? message : undefined;
  } catch {
    return undefined;
  }
}
