/** Writes the MGET for a batch (RESP2, redis.io/docs/latest/develop/reference/protocol-spec). */
import { COMMAND, PREFIX } from '../layout';

/** `$4\r\nMGET` as a little-endian number */
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const MGET: u64 = 0x5445474d0a0d3424;
const LINE_END: u16 = 0x0a0d;

let end: usize = COMMAND;

function writeNumber(mark: u8, number: u32): void {
  store<u8>(end, mark);
  end++;
  let divisor: u32 = 1;
  while (number / divisor >= 10) divisor *= 10;
  for (; divisor > 0; divisor /= 10) {
    store<u8>(end, <u8>(0x30 + ((number / divisor) % 10)));
    end++;
  }
  store<u16>(end, LINE_END);
  end += 2;
}

/** Begins a command for `keys` keys. */
export function beginCommand(keys: u32): void {
  end = COMMAND;
  writeNumber(0x2a, keys + 1);
  store<u64>(end, MGET);
  store<u16>(end, LINE_END, 8);
  end += 10;
}

/** Appends a key, preceded by the `prefixLength` bytes at PREFIX. */
export function addKey(prefixLength: u32, key: usize, length: u32): void {
  writeNumber(0x24, prefixLength + length);
  memory.copy(end, PREFIX, prefixLength);
  end += prefixLength;
  memory.copy(end, key, length);
  end += length;
  store<u16>(end, LINE_END);
  end += 2;
}

export function commandLength(): u32 {
  return <u32>(end - COMMAND);
}
