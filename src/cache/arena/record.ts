import { BODY_LENGTH_AT, SHARED_LENGTH_AT, VALID_UNTIL_AT } from '../../hotels/entry-layout.ts';
import { RECORD_HEADER_BYTES } from '../../wasm/constants.ts';

/** Fields of the entry of a record, in words of four bytes from the record's start. */
export const BODY_LENGTH_WORD = (RECORD_HEADER_BYTES + BODY_LENGTH_AT) / 4;
export const SHARED_LENGTH_WORD = (RECORD_HEADER_BYTES + SHARED_LENGTH_AT) / 4;
/** The same in doubles. */
export const VALID_UNTIL_DOUBLE = (RECORD_HEADER_BYTES + VALID_UNTIL_AT) / 8;
