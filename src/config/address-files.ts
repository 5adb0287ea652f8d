import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

/** Variables that may be read from a file. The variable `<name>_FILE` names that file. */
const ADDRESSES = ['DATABASE_URL', 'DATABASE_DIRECT_URL', 'DATABASE_REPLICA_URLS', 'REDIS_URL'] as const;
export type AddressName = (typeof ADDRESSES)[number];
type Addresses = Readonly<Record<AddressName | `${AddressName}_FILE`, string>>;

/** Interval of rereading. A mounted Secret is replaced within a minute; its new password must then be used at once. */
const READ_EVERY_MS = 1_000;

/**
 * Sets the variables whose files are named to the content of these files. Returns the new environment, and one fault
 * for each unusable file.
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
      if (found[name] === '') faults.push(`the file of ${name}_FILE is empty`);
    } catch (error) {
      faults.push(`the file of ${name}_FILE cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
  }
  return [found, faults];
}

/**
 * Rereads the files every second, and calls back if the content of one has changed, again until `onChange` returns true:
 * a TLS file that an address names may be replaced after the address. An unreadable file counts as unchanged. Returns a
 * function that ends this.
 */
export function watchAddressFiles(
  config: Addresses,
  onChange: (name: AddressName, content: string) => boolean,
): () => void {
  const read = async (): Promise<void> => {
    for (const name of ADDRESSES) {
      const path = config[`${name}_FILE`];
      const content = path && (await readFile(path, 'utf8').catch(() => ''));
      const known = contents.get(name) ?? config[name];
      if (!content || content.trim() === '' || content.trim() === known) continue;
      if (onChange(name, content)) contents.set(name, content.trim());
    }
  };
  const contents = new Map<AddressName, string>();
  if (!ADDRESSES.some((name) => config[`${name}_FILE`])) return () => {};
  const timer = setInterval(read, READ_EVERY_MS).unref();
  return () => clearInterval(timer);
}
