import {
  BODY_LENGTH_AT,
  HEADER_BYTES,
  LABEL_AT,
  OTHER_LENGTH_AT,
  SHARED_LENGTH_AT,
} from '../hotels/entry-layout.ts';
import type { ValuesReader } from '../redis/reply-parser.ts';
import { hotel } from './arena/arena.fixture.ts';

const FIELDS = [0, 1, 65, 66, 1_020, 1_021, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff];
const LENGTHS = ['-1', '-7', '', 'x', '0', '131072', '131073', '2147483647', '4294967295', '99999999999'];

/** A key of nearly the maximum length begins with another. */
export const LONG = '🏨'.repeat(250);
/** From here on hotels are large: a batch of them is larger than the memory for a response. */
export const SMALL = 60;
/** Whether a hotel has another body too: then a forger can show any of its bytes. */
export const hasOther = (i: number): boolean => i % 2 === 1;
export const hotels = Array.from({ length: SMALL + 160 }, (_, i) => {
  const description = 'é'.repeat(i < SMALL ? (i % 9) * 400 : 60_000);
  const certified_until = hasOther(i) ? '2000-12-31' : null;
  return hotel({
    id: `h${i}`,
    channel_id: `c${i}`,
    registry_id: String(i),
    description,
    certified_from: '2000-01-01',
    certified_until,
  });
});

let state = 0;
export function seedRandom(seed: number): void {
  state = seed;
}
export function random(below: number): number {
  state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}
export const oneOf = <T>(values: readonly T[]): T => values[random(values.length)]!;

/** Returns what Redis holds under a name, also entries of wrong lengths. */
function storedAt(name: string): Buffer | null {
  const kind = random(24);
  const { bytes, id } = hotels[Number(name.slice(2).replace(/\D/, ''))] ?? oneOf(hotels);
  if (kind === 0) return null;
  if (kind < 3) return Buffer.alloc(oneOf(random(9) ? [0, 1, 1_021] : [131_073, 600_000]), oneOf(['>', 'H']));
  if (!name.startsWith('h:')) return Buffer.from(`>${kind === 3 ? random(1_000) + LONG : id}`);
  if (kind < 20) return bytes;
  const forged = Buffer.from(bytes);
  const anywhere = LABEL_AT + random(HEADER_BYTES - LABEL_AT - 4);
  const at = oneOf([BODY_LENGTH_AT, SHARED_LENGTH_AT, OTHER_LENGTH_AT, anywhere]);
  if (random(2)) forged.writeUInt32LE(oneOf(FIELDS), at);
  else forged.writeUInt16LE(oneOf(FIELDS) & 0xffff, at);
  return forged;
}

interface Read {
  by: ValuesReader;
  reply: Buffer;
  /** number of bytes of the reply that were taken */
  at: number;
  isLate: boolean;
  end: (read?: true) => void;
}

/** Redis in the hands of an attacker. It replies when `takeReply` is called. */
export class HostileRedis {
  /** in the order of their replies, as on a connection */
  readonly #reads: Read[] = [];

  sendMget(command: Buffer, _keys: number, by: ValuesReader): Promise<true | undefined> {
    const names = `${command}`.split('\r\n').filter((_, i) => i > 2 && i % 2 === 0);
    const values = names.map(storedAt).flatMap((value) => {
      if (value === null) return '$-1\r\n';
      return [`$${random(1_000) ? value.length : oneOf(LENGTHS)}\r\n`, value, '\r\n'];
    });
    const reply = Buffer.concat([`*${names.length}\r\n`, ...values].map((part) => Buffer.from(part)));
    return new Promise((end) => void this.#reads.push({ by, reply, at: 0, isLate: false, end }));
  }

  /** Ends the first read without its reply, which is still taken. */
  late(): void {
    if (this.#reads[0]) Object.assign(this.#reads[0], { isLate: true }).end();
  }

  close(): void {
    for (const { end } of this.#reads.splice(0)) end();
  }

  /** Gives the next bytes of the first reply to its reader, and returns it. Throws when a wrong reply closes the connection. */
  takeReply(taken: () => void): void {
    const [first] = this.#reads;
    if (!first) return;
    const { by, reply, at } = first;
    first.at = Math.min(reply.length, at + 1 + random(oneOf([100, 9_000_000])));
    try {
      const isDone = by.take(reply.subarray(at, first.at), 0) >= 0;
      if (isDone) this.#reads.shift();
      if (isDone && !first.isLate) by.complete();
      if (isDone) first.end(true);
      else if (first.at === reply.length) throw new Error('the reply has no end');
    } catch (error) {
      if (!/^Error: (Redis|the reply)/.test(`${error}`)) throw error;
      this.close();
    }
    taken();
  }
}
