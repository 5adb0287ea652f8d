import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { watchAddressFiles, withAddressFiles } from './address-files.ts';

const NONE = {
  ...{ DATABASE_URL: '', DATABASE_REPLICA_URLS: '', REDIS_URL: '' },
  ...{ DATABASE_URL_FILE: '', DATABASE_REPLICA_URLS_FILE: '', REDIS_URL_FILE: '' },
};

let folder: string;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  folder = await mkdtemp(join(tmpdir(), 'hotel-api-address-files-'));
});

afterEach(async () => {
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

it('a file is reported while it differs from the address in use, as new after each change', async () => {
  const [watched, other] = [join(folder, 'watched'), join(folder, 'other')];
  const config = { ...NONE, DATABASE_URL: 'used', DATABASE_URL_FILE: watched, REDIS_URL_FILE: other };
  await writeFile(other, 'read last and never used');
  let reported: boolean[] = [];
  let read = () => {};
  const stop = watchAddressFiles(config, (name, _, isNew) => {
    if (name === 'DATABASE_URL') reported.push(isNew);
    else read();
  });
  const afterReading = async (content: string) => {
    await writeFile(watched, content);
    reported = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    read = resolve;
    vi.advanceTimersByTime(1_000);
    await promise;
    return reported;
  };
  expect(await afterReading('used\n')).toEqual([]);
  expect(await afterReading('rejected\n')).toEqual([true]);
  expect(await afterReading('rejected')).toEqual([false]);
  expect(await afterReading('rejected, too')).toEqual([true]);
  expect(await afterReading('')).toEqual([]);
  expect(await afterReading('rejected, too')).toEqual([false]);
  expect(await afterReading('used')).toEqual([]);
  expect(await afterReading('rejected, too')).toEqual([true]);
  config.DATABASE_URL = 'rejected, too';
  expect(await afterReading('rejected, too')).toEqual([]);
  stop();
});

it('a file whose reading hangs takes one thread at most', async () => {
  const hanging = join(folder, 'hanging');
  execFileSync('mkfifo', [hanging]);
  const stop = watchAddressFiles({ ...NONE, DATABASE_URL_FILE: hanging }, () => {});
  // more than libuv has threads
  vi.advanceTimersByTime(8_000);
  const file = join(folder, 'file');
  await writeFile(file, 'read');
  expect(await readFile(file, 'utf8')).toBe('read');
  stop();
  await writeFile(hanging, 'at last');
});

it('an empty file counts as an unset variable, and the address of PostgreSQL is required', async () => {
  const file = join(folder, 'empty');
  await writeFile(file, '\n');
  const [found, faults] = withAddressFiles({ DATABASE_REPLICA_URLS_FILE: file, REDIS_URL_FILE: file });
  expect(found).toMatchObject({ DATABASE_REPLICA_URLS: '', REDIS_URL: '' });
  expect(faults).toEqual([]);
  expect(withAddressFiles({ DATABASE_URL_FILE: file })[1]).toEqual([
    'the file of DATABASE_URL_FILE is empty',
  ]);
});
