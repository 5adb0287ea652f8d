/**
 * Table of a batch at SCRATCH: records, followed by the texts. Offsets count from the table, because it is copied while a reply
 * is awaited.
 */
import { GAP, PENDING_BYTES } from '../../constants';
import * as fields from '../../fields';
import { SCRATCH } from '../layout';

@unmanaged
class PendingKey {
  /** offset and length of the key */
  private key: u32;
  keyLength: u32;
  /** offset and length of the id, or GAP */
  private id: u32;
  idLength: u32;
  /**
   * offset in the local hits at which its body belongs; later that of a gap in the response, or of an entry, whose length is then
   * in place of the offset of the id
   */
  place: u32;

  get keyAt(): usize {
    return SCRATCH + this.key;
  }

  set keyAt(address: usize) {
    this.key = <u32>(address - SCRATCH);
  }

  get idAt(): usize {
    return SCRATCH + this.id;
  }

  set idAt(address: usize) {
    this.id = <u32>(address - SCRATCH);
  }

  /** true if it leads to an id */
  get hasId(): bool {
    return this.idLength !== <u32>GAP;
  }

  set entryLength(length: u32) {
    this.id = length;
  }
}

if (
  offsetof<PendingKey>('key') !== fields.PENDING_KEY ||
  offsetof<PendingKey>('keyLength') !== fields.PENDING_KEY_LENGTH ||
  offsetof<PendingKey>('id') !== fields.PENDING_ID ||
  offsetof<PendingKey>('idLength') !== fields.PENDING_ID_LENGTH ||
  offsetof<PendingKey>('place') !== fields.PENDING_PLACE ||
  offsetof<PendingKey>() !== PENDING_BYTES
)
  ERROR('fields.ts has other offsets');

/** Returns the i-th record. */
export function pendingAt(i: u32): PendingKey {
  return changetype<PendingKey>(SCRATCH + <usize>i * offsetof<PendingKey>());
}
