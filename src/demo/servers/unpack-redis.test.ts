import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { findProgram } from './programs.ts';
import { unpackRedis } from './unpack-redis.ts';

const run = promisify(execFile);
// apt reads its lists several times in a test
vi.setConfig({ testTimeout: 60_000 });

const hasApt = (await findProgram(['apt-get'])) && (await findProgram(['dpkg-deb']));

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'unpack-'));
  // its user may differ
  await chmod(folder, 0o755);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

/** Builds a package in the test repository. */
async function build(name: string, depends: string, files: (root: string) => Promise<unknown>) {
  const [root, repository] = [join(folder, name), join(folder, 'repository')];
  for (const made of [`${root}/DEBIAN`, `${root}/usr/bin`, `${root}/usr/lib/somewhere`, repository])
    await mkdir(made, { recursive: true });
  const control = `Package: ${name}\nVersion: 1.0\nArchitecture: all\nMaintainer: test\n${depends}Description: test\n`;
  await writeFile(join(root, 'DEBIAN/control'), control);
  await files(root);
  const built = join(repository, `${name}.deb`);
  await run('dpkg-deb', ['--root-owner-group', '-b', root, built]);
  const bytes = await readFile(built);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const entry = `${control}Filename: ./${name}.deb\nSize: ${bytes.length}\nSHA256: ${sha256}\n\n`;
  await writeFile(join(repository, 'Packages'), entry, { flag: 'a' });
}

/** Configures apt for this source alone, with nothing installed, and additional settings. */
async function useSource(source: string, settings: string): Promise<void> {
  const [list, file] = [join(folder, 'sources.list'), join(folder, 'apt.conf')];
  await writeFile(list, `${source}\n`);
  const parts = `Dir::Etc::sourcelist "${list}"; Dir::Etc::sourceparts "${folder}/none";`;
  await writeFile(file, `${parts} Dir::State::status "/dev/null"; ${settings}\n`);
  vi.stubEnv('APT_CONFIG', file);
}

it.skipIf(!hasApt)(
  "the distribution's package is unpacked once with missing libraries, if it is signed",
  async () => {
    // as Debian's: the server is a link to a file of the tools package, which depends on a library
    await build('redis-server', 'Depends: redis-tools\n', (root) =>
      symlink('redis-check-rdb', join(root, 'usr/bin/redis-server')),
    );
    await build('redis-tools', 'Depends: libhotelapitest\n', (root) =>
      writeFile(join(root, 'usr/bin/redis-check-rdb'), '#!/bin/sh\necho "$LD_LIBRARY_PATH"\n', {
        mode: 0o755,
      }),
    );
    await build('libhotelapitest', '', (root) =>
      writeFile(join(root, 'usr/lib/somewhere/libhotelapitest.so.1'), ''),
    );
    // contains a space, as a user's folder may
    const cache = join(folder, 'the cache');
    const said: string[] = [];
    const unpack = () => unpackRedis((sentence) => said.push(sentence), { cache });

    // it stays so if the configuration of the machine permits packages without a signature
    const permitted = 'APT::Get::AllowUnauthenticated "true"; Acquire::AllowInsecureRepositories "true";';
    await useSource(`deb file:${folder}/repository ./`, permitted);
    expect(await unpack()).toBeUndefined();
    expect(said.splice(0)).toEqual([
      expect.stringMatching(/^Fetching Redis from the packages of /),
      expect.stringMatching(/^Redis could not be fetched: E: .*(not signed|Release)/),
    ]);
    expect(await readdir(cache)).toEqual([]);

    await useSource(`deb [trusted=yes] file:${folder}/repository ./`, '');
    const program = await unpack();
    expect((await run(program!)).stdout.trim()).toBe(join(program!, '../usr/lib/somewhere'));
    expect(await readdir(cache)).toHaveLength(1);
    await rm(join(folder, 'repository'), { recursive: true });
    expect(await unpack()).toBe(program);
    expect(said).toHaveLength(1);
  },
);
