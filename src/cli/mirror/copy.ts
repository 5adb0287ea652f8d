import { createHash, type Hash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { lstat, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { pipeline } from 'node:stream/promises';
import { Failure } from '../../lib/failure.ts';

/** Age from which an incomplete file counts as left by a killed run. */
const LEFT_BEHIND_MS = 3_600_000;

/** A content of the file, and the position of the change that follows it. */
interface State {
  sha256: string;
  next: string;
}

/** Content of FILE.next. */
interface Positions {
  /** base address of the API */
  api: string;
  states: State[];
}

/**
 * Copy of all hotels of an API in a file of NDJSON, ordered by id, and in memory. FILE.next holds the position for the
 * present content of the file, which it names by its hash. It is written before the file, with the position for the
 * previous content too. A position is therefore never used with another content, whenever a run is killed, and however
 * many run at once.
 */
export class Copy {
  readonly #file: string;
  readonly #api: string;
  /** hotels as JSON, by id */
  lines = new Map<string, string>();
  /** position of the next change; undefined: the copy begins */
  next: string | undefined;
  /** of the file as it was last read or written */
  #saved: State | undefined;

  private constructor(file: string, api: string) {
    this.#file = file;
    this.#api = api;
  }

  /** Reads an existing copy, or begins one. Throws a `Failure` if it could not be written, or the file is something else. */
  static async open(file: string, api: string): Promise<Copy> {
    const copy = new Copy(file, api);
    const exists = await lstat(file).catch(() => undefined);
    // before the folder is tried: that of a device may not be writable
    if (exists && !exists.isFile()) throw new Failure(`${file} is not a regular file`);
    await copy.#prepare();
    const written = await readFile(copy.#positionFile, 'utf8').catch(() => undefined);
    if (exists && written === undefined)
      throw new Failure(
        `${file} exists and is not a copy by mirror, because there is no ${file}.next. Remove it, or name another file`,
      );
    const positions = written === undefined ? undefined : parsed(written);
    if (positions && positions.api !== api)
      throw new Failure(
        `${file} is a copy of ${positions.api}. Remove ${file}.next and ${file}, or name another file`,
      );
    if (exists && positions) await copy.#read(positions.states);
    return copy;
  }

  /** Empties the copy in memory; the file is kept until the next `save`. */
  beginAgain(): void {
    this.lines = new Map();
    this.next = undefined;
  }

  /** Writes the copy, which appears under its name when it is complete. Throws a `Failure`; the file is as it was then. */
  async save(): Promise<void> {
    const partial = this.#partialName();
    try {
      const hash = createHash('sha256');
      const sink = createWriteStream(partial, { flags: 'wx', flush: true });
      await pipeline(this.#text(hash), sink);
      const state = { sha256: hash.digest('hex'), next: this.next! };
      const states = this.#saved ? [state, this.#saved] : [state];
      await this.#writePositions({ api: this.#api, states });
      await rename(partial, this.#file);
      this.#saved = state;
    } catch (error) {
      await rm(partial, { force: true });
      throw this.#failure(error);
    }
  }

  get #positionFile(): string {
    return `${this.#file}.next`;
  }

  /** unique, because another run may write the same file */
  #partialName(): string {
    return `${this.#file}.${randomBytes(6).toString('hex')}.partial`;
  }

  /** Checks that the file can be written, before hotels are read for minutes, and removes what killed runs have left. */
  async #prepare(): Promise<void> {
    const partial = this.#partialName();
    try {
      await writeFile(partial, '', { flag: 'wx' });
      await rm(partial);
      const folder = dirname(this.#file);
      const name = basename(this.#file);
      for (const other of await readdir(folder)) {
        if (!other.startsWith(`${name}.`) || !/^[0-9a-f]{12}\.partial$/.test(other.slice(name.length + 1)))
          continue;
        const path = join(folder, other);
        const age = Date.now() - ((await lstat(path).catch(() => undefined))?.mtimeMs ?? Infinity);
        if (age > LEFT_BEHIND_MS) await rm(path, { force: true });
      }
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** Reads the file if its content is one of these states. Otherwise all hotels are copied again. */
  async #read(states: State[]): Promise<void> {
    const hash = createHash('sha256');
    try {
      const input = createReadStream(this.#file).on('data', (chunk) => hash.update(chunk));
      for await (const line of createInterface({ input })) this.lines.set(JSON.parse(line).id, line);
    } catch {
      this.lines = new Map();
      return;
    }
    const sha256 = hash.digest('hex');
    this.#saved = states.find((state) => state.sha256 === sha256);
    this.next = this.#saved?.next;
    if (!this.#saved) this.lines = new Map();
  }

  *#text(hash: Hash): Generator<string> {
    const ids = [...this.lines.keys()].map((id) => Buffer.from(id)).sort(Buffer.compare);
    for (const id of ids) {
      const line = `${this.lines.get(id.toString())}\n`;
      hash.update(line);
      yield line;
    }
  }

  async #writePositions(positions: Positions): Promise<void> {
    const partial = this.#partialName();
    try {
      await writeFile(partial, `${JSON.stringify(positions)}\n`, { flag: 'wx', flush: true });
      await rename(partial, this.#positionFile);
    } catch (error) {
      await rm(partial, { force: true });
      throw error;
    }
  }

  #failure(error: unknown): Failure {
    const { code, message } = error as NodeJS.ErrnoException;
    return new Failure(`cannot write ${this.#file} (${code}): ${message}`);
  }
}

/** Returns undefined for a text that this class has not written. */
function parsed(written: string): Positions | undefined {
  try {
    const { api, states } = JSON.parse(written);
    const isState = (state: Partial<State>) =>
      typeof state.sha256 === 'string' && typeof state.next === 'string';
    return typeof api === 'string' && states.every(isState) ? { api, states } : undefined;
  } catch {
    return undefined;
  }
}
