import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Bytes of a message authentication code: truncated HMAC-SHA-256. */
export const MAC_BYTES = 16;

const SECRET_BYTES = 32;

/** Signs and verifies with the secret of the database's history, which only the serving role can read. */
export class MacSecret {
  /** Until the secret is known, no code verifies. */
  #key: Uint8Array = randomBytes(SECRET_BYTES);

  /** Sets the secret, of 32 bytes. */
  use(key: Uint8Array): void {
    // with an empty secret, any client could sign
    if (key.length !== SECRET_BYTES)
      throw new Error(`the secret has ${key.length} bytes, not ${SECRET_BYTES}`);
    this.#key = Buffer.from(key);
  }

  mac(data: string | Uint8Array): Buffer {
    return createHmac('sha256', this.#key).update(data).digest().subarray(0, MAC_BYTES);
  }

  verifies(data: string | Uint8Array, mac: Uint8Array): boolean {
    return mac.length === MAC_BYTES && timingSafeEqual(this.mac(data), mac);
  }
}
