import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { knownVersion } from './migrate.ts';

it('two migrations with the same number are rejected, because the second would never be applied', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'migrations-'));
  try {
    for (const name of ['001-one.sql', '002-two.sql', '002-too.sql'])
      await writeFile(join(directory, name), 'select 1');
    await expect(knownVersion(directory)).rejects.toThrow(
      'sql/002-too.sql and sql/002-two.sql have the same number',
    );
    await rm(join(directory, '002-too.sql'));
    expect(await knownVersion(directory)).toBe(2);
  } finally {
    await rm(directory, { recursive: true });
  }
});
