import type { ErrorCode } from '../errors.ts';
import { type Namespace, numberOf } from '../hotels/namespace.ts';
import { instantiate } from '../wasm/batch-body.ts';
import { MAX_BODY_BYTES } from './body.ts';

/** Bytes of memory for a body of maximum length. A page is resident only after its first use. */
const MEMORY_BYTES = MAX_BODY_BYTES + 65_536;

const OF_ELEMENTS: readonly (ErrorCode | undefined)[] = [
  'idNotString',
  'channelIdNotString',
  'registryIdNotInteger',
];
/** Errors of bodies, by the negative of the number that readBody returns. */
const ERRORS: Record<Namespace, readonly (ErrorCode | undefined)[]> = {
  id: [undefined, 'bodyNotJson', 'idsMissing', 'tooManyIds', 'idNotString'],
  channel: [undefined, 'bodyNotJson', 'channelIdsMissing', 'tooManyChannelIds', 'channelIdNotString'],
  registry: [undefined, 'bodyNotJson', 'registryIdsMissing', 'tooManyRegistryIds', 'registryIdNotInteger'],
};

/**
 * Result of reading a batch: each id once, in the order of first occurrence, with registry ids in canonical digits.
 * Else the error, with the index of the first wrong element. Ids that no hotel can have may be omitted.
 */
type BatchIds = { ids: string[] } | { error: ErrorCode; index?: number };

const { wasm, memory } = instantiate(MEMORY_BYTES);
const bytes = Buffer.from(memory.buffer);
const words = new Uint32Array(memory.buffer);

// V8 optimises this code only after it has run for a while; the first body of 1 MiB must not pay for that
const WARM_UP = Buffer.from(`{"x":[${'1,'.repeat(8_000)}"a"]}`);
for (let i = 0; i < 16; i++) readBatch('registry', WARM_UP);

/** Reads the body of a batch of at most MAX_BODY_BYTES. */
export function readBatch(namespace: Namespace, body: Uint8Array): BatchIds {
  bytes.set(body, wasm.INPUT.value);
  const count = wasm.readBody(body.length, numberOf(namespace));
  const error = ERRORS[namespace][-count];
  if (error) return OF_ELEMENTS.includes(error) ? { error, index: wasm.wrongIndex.value } : { error };
  const ids = new Set<string>();
  let word = wasm.ELEMENTS.value / 4;
  for (let i = 0; i < count; i++, word += 4) {
    const start = words[word]!;
    ids.add(bytes.toString('utf8', start, start + words[word + 1]!));
  }
  return { ids: [...ids] };
}
