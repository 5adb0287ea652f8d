import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Bytes of a message authentication code: truncated HMAC-SHA-256. */
export const MAC_BYTES = 16;

const SECRET_BYTES = 32;

/** Purpose of a code; a code for one purpose does not verify for another. */
type Purpose = 'feed' | 'key';

/** Signs and verifies with the secret of the database's history, which only the serving role can read. */
export class MacSecret {
  /** Until the secret is known, no code verifies. */
  #key: Uint8Array = randomBytes(SECRET_BYTES);

  /** Sets the secret, of 32 bytes. Returns whether it differs from the one before. */
  use(key: Uint8Array): boolean {
    // with an empty secret anybody could sign
    if (key.length !== SECRET_BYTES)
      throw new Error(`the secret has ${key.length} bytes, not ${SECRET_BYTES}`);
    const isAnother = Buffer.compare(key, this.#key) !== 0;
    this.#key = Buffer.from(key);
    return isAnother;
  }

  mac(purpose: Purpose, data: string | Uint8Array): Buffer {
    const hmac = createHmac('sha256', this.#key).update(`${purpose}\0`);
    return hmac.update(data).digest().subarray(0, MAC_BYTES);
  }

  verifies(purpose: Purpose, data: string | Uint8Array, mac: Uint8Array): boolean {
    return mac.length === MAC_BYTES && timingSafeEqual(this.mac(purpose, data), mac);
  }
}
