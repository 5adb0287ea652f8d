import type { ErrorCode } from '../errors.ts';
import { instantiate } from '../wasm/batch-body.ts';
import { MAX_BODY_BYTES } from './body.ts';

/** Up to the end of a body of the greatest length; no page of it is resident before it is used. */
const MEMORY_BYTES = MAX_BODY_BYTES + 65_536;

/** Errors of single elements. */
const OF_ELEMENTS: readonly (ErrorCode | undefined)[] = ['channelIdNotString', 'registryIdNotInteger'];
/** What is wrong with a body, by the negative of the number that readBody returns. */
const ERRORS: Record<'channel' | 'registry', readonly (ErrorCode | undefined)[]> = {
  channel: [undefined, 'bodyNotJson', 'channelIdsMissing', 'tooManyChannelIds', 'channelIdNotString'],
  registry: [undefined, 'bodyNotJson', 'registryIdsMissing', 'tooManyRegistryIds', 'registryIdNotInteger'],
};

/**
 * The ids a batch asks for, each once, in the order of their first places, registry ids in canonical digits; or what is
 * wrong with the body, and where an element is wrong the index of the first. Ids that no hotel can carry may be left out.
 */
export type BatchIds = { ids: string[] } | { error: ErrorCode; index?: number };

const { wasm, memory } = instantiate(MEMORY_BYTES);
const bytes = Buffer.from(memory.buffer);
const words = new Uint32Array(memory.buffer);

// V8 compiles this code well only once it has run for a while, and a body of 1 MiB is not to be the first
const WARM_UP = Buffer.from(`{"x":[${'1,'.repeat(8_000)}"a"]}`);
for (let i = 0; i < 16; i++) readBatch('registry', WARM_UP);

/** Reads the body of a batch, at most MAX_BODY_BYTES long. */
export function readBatch(namespace: 'channel' | 'registry', body: Uint8Array): BatchIds {
  bytes.set(body, wasm.INPUT.value);
  const count = wasm.readBody(body.length, namespace === 'registry' ? 1 : 0);
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
