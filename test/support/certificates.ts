import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from './cleanup.ts';
import { run } from './run.ts';

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** Certificate authority of one test file. Requires `needs('openssl')`. */
export class Authority {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async create(): Promise<Authority> {
    const folder = await temporaryFolder('hotel-api-tls-');
    // servers of another user read in it
    await chmod(folder, 0o755);
    const authority = new Authority(folder);
    const root = ['-keyout', 'ca.key', '-out', 'ca.crt', '-subj', '/CN=CA', '-days', '2'];
    await authority.#openssl('req', '-x509', ...NEW_KEY, ...root);
    return authority;
  }

  /** Certificate of the authority itself. */
  get certificate(): string {
    return this.file('ca.crt');
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  /**
   * Writes `name`.key and `name`.crt with that subject. `names` are those of a server, as `DNS:localhost` or
   * `IP:127.0.0.1`, separated by commas.
   */
  async certify(name: string, names?: string): Promise<{ key: string; certificate: string }> {
    const request = ['-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`];
    await this.#openssl('req', ...NEW_KEY, ...request);
    await writeFile(this.file('extensions'), names ? `subjectAltName=${names}` : '');
    await this.#openssl(
      ...['x509', '-req', '-in', `${name}.csr`, '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial'],
      ...['-out', `${name}.crt`, '-days', '2', '-extfile', 'extensions'],
    );
    return { key: this.file(`${name}.key`), certificate: this.file(`${name}.crt`) };
  }

  #openssl(...args: string[]): Promise<unknown> {
    return run('openssl', args, { cwd: this.folder });
  }
}
