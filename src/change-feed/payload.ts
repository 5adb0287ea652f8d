import { Compile } from 'typebox/compile';
import { MAC_BYTES, type MacSecret } from '../lib/mac.ts';
import { FeedMessage } from './messages.ts';

/** In base64url, without padding. */
export const MAC_CHARACTERS = Math.ceil((MAC_BYTES * 8) / 6);

const Message = Compile(FeedMessage);

/** A message as a notification carries it: its code, then JSON. Any login may send notifications, only the service signs. */
export function signed(json: string, secret: MacSecret): string {
  return secret.mac('feed', json).toString('base64url') + json;
}

/**
 * The message of a notification; 'unsigned' where its code does not verify, 'malformed' where a signed one does not
 * have the schema of a message. Never throws.
 */
export function readPayload(payload: string, secret: MacSecret): FeedMessage | 'unsigned' | 'malformed' {
  const mac = Buffer.from(payload.slice(0, MAC_CHARACTERS), 'base64url');
  if (!secret.verifies('feed', payload.slice(MAC_CHARACTERS), mac)) return 'unsigned';
  return readUnverified(payload) ?? 'malformed';
}

/** The message of a notification, whoever sent it; undefined where it does not have the schema of one. */
export function readUnverified(payload: string): FeedMessage | undefined {
  try {
    const message = JSON.parse(payload.slice(MAC_CHARACTERS));
    return Message.Check(message) ? message : undefined;
  } catch {
    return undefined;
  }
}
