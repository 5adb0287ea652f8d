import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { clearTimer, every } from '../lib/clock.ts';

/** Variables that may be read from a file. The variable `<name>_FILE` names that file. */
const ADDRESSES = ['DATABASE_URL', 'DATABASE_REPLICA_URLS', 'REDIS_URL'] as const;
export type AddressName = (typeof ADDRESSES)[number];
type Addresses = Readonly<Record<AddressName | `${AddressName}_FILE`, string>>;

/** Interval of rereading. A mounted Secret is replaced within a minute; its new password must then be used at once. */
const READ_EVERY_MS = 1_000;

/**
 * Sets the variables whose files are named to the content of these files. An empty file counts as an unset variable. Returns
 * the new environment, and one fault for each unusable file.
 */
export function withAddressFiles(environment: NodeJS.ProcessEnv): [NodeJS.ProcessEnv, faults: string[]] {
  const found = { ...environment };
  const faults: string[] = [];
  for (const name of ADDRESSES) {
    const path = environment[`${name}_FILE`]?.trim();
    if (!path) continue;
    if (environment[name]?.trim()) {
      faults.push(`${name} and ${name}_FILE are both set: set one of them`);
      continue;
    }
    try {
      found[name] = readFileSync(path, 'utf8').trim();
      if (found[name] === '' && name === 'DATABASE_URL') faults.push(`the file of ${name}_FILE is empty`);
    } catch (error) {
      faults.push(`the file of ${name}_FILE cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
  }
  return [found, faults];
}

/**
 * Rereads the files every second. Calls back while the content of one differs from the address in use: a TLS file that
 * a rejected address names may arrive later. `isNew`: it is not the content that was read a second before. An unreadable file
 * counts as unchanged. Returns a function that ends this.
 */
export function watchAddressFiles(
  config: Addresses,
  onChange: (name: AddressName, content: string, isNew: boolean) => void,
): () => void {
  const last = new Map<AddressName, string>();
  const read = async (): Promise<void> => {
    for (const name of ADDRESSES) {
      const path = config[`${name}_FILE`];
      const content = path && (await readFile(path, 'utf8').catch(() => '')).trim();
      if (!content) continue;
      const isNew = content !== last.get(name);
      last.set(name, content);
      if (content !== config[name]) onChange(name, content, isNew);
    }
  };
  if (!ADDRESSES.some((name) => config[`${name}_FILE`])) return () => {};
  let isReading = false;
  const timer = every(async () => {
    // on a file system that hangs, each read would keep another thread from everything else
    if (isReading) return;
    isReading = true;
    await read().finally(() => {
      isReading = false;
    });
  }, READ_EVERY_MS).unref();
  return () => clearTimer(timer);
}
